# SPDX-License-Identifier: BSD-2-Clause
#
# A thin front over meson and ninja. Each goal first installs the Debian packages it lacks (scripts/setup) and says so.
#
#   make            the libraries (build/lib), the daemon (build/usrdmad) and the command (build/usrdma)
#   make demo       two unmodified processes of Debian's rping talk RDMA through them
#   make test       every suite, also under AddressSanitizer and ThreadSanitizer; ends with "N passed, N failed"
#   make package-test  builds the Debian and RPM packages and tests them in clean roots, as root; not a part of make test
#   make container-test  builds the runtime image and tests it, the examples of compose and Kubernetes, and the steps for CI,
#                   as root; not a part of make test
#   make bench      unmodified perftest beside UCX and TCP on this machine, beside Linux's rxe in a virtual machine;
#                   plots in build/plots
#   make fuzz       every fuzz target for FUZZ_SECONDS
#   make soak       the long variants of the tests, for hours: every race, many seeds, fuzzing
#   make coverage   how much of the source the tests reach, by file
#   make site       documents and manual pages as a site with search, in build/site; checks its links
#   make dist       source archive, SBOM and SHA256SUMS of the last commit, in build/dist; make dist-test tests the archive
#   make install    into PREFIX (default /usr/local), libraries in a directory of their own; honours DESTDIR
#   make uninstall  removes the files of the last make install
#   make help       prints this list
#   make asan tsan  the instrumented builds, in build-asan and build-tsan
#   make format-check, make clean

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
MESON = meson setup $(MESON_FLAGS)

.PHONY: all demo test package-test container-test bench fuzz soak coverage site dist dist-test install uninstall help asan tsan format-check clean

all: build/build.ninja
	ninja -C build

build/build.ninja:
	scripts/setup build
	$(MESON) --prefix='$(PREFIX)' -Dtests=disabled build

demo: all
	scripts/setup demo
	scripts/demo

test:
	scripts/setup build test
	tests/run

package-test:
	scripts/setup build package
	tests/packages/run

container-test:
	scripts/setup container
	tests/containers/run

bench: all
	scripts/setup bench
	meson configure build -Dtests=enabled
	ninja -C build bench/bench-register bench/bench-lookup bench/bench-messages bench/bench-rpc bench/bench-udp bench/bench-futex tests/programs/many tests/programs/crowd
	bench/run
	bench/plot

fuzz:
	scripts/setup build fuzz
	FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run

soak:
	scripts/setup build test fuzz
	tests/soak

coverage:
	scripts/setup build test
	tests/coverage

site: build/build.ninja
	scripts/setup site
	ninja -C build man
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0) docs/site/build build/man

dist: all
	scripts/setup dist
	scripts/dist -b build

dist-test:
	scripts/setup build test dist
	tests/dist

install: all
	meson configure build -Dprefix='$(PREFIX)'
	meson install -C build

uninstall:
	ninja -C build uninstall

help:
	@sed -n '/^# \{3\}make/,/^$$/s/^#   //p' Makefile

asan tsan:
	scripts/setup build
	tests/run --only-build $@

format-check:
	scripts/setup test
	tests/arch/format.py

clean:
	rm -rf build build-clang build-asan build-tsan build-fuzz build-coverage
