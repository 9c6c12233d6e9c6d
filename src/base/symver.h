/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BASE_SYMVER_H
#define BASE_SYMVER_H

/* Exports a symbol from its library; symbols are hidden by default. */
#define EXPORTED __attribute__((visibility("default")))

/*
 * Declares a function that is exported under another name with a non-default version, "name@NODE".
 * The attribute is used if the compiler supports it, because link-time optimization may lose the
 * assembler directive.
 */
#if __has_attribute(symver)
#define VERSIONED(type, function, parameters, name) \
	EXPORTED __attribute__((symver(name))) type function parameters;
#else
#define VERSIONED(type, function, parameters, name) \
	EXPORTED type function parameters;          \
	__asm__(".symver " #function ", " name);
#endif

#endif /* BASE_SYMVER_H */
