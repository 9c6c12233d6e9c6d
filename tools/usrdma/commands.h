/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOLS_COMMANDS_H
#define USRDMA_TOOLS_COMMANDS_H

/* The exit status after an invalid command line. */
#define EXIT_USAGE 2

/*
 * One function per subcommand of `usrdma`, each in its own file. argv[0] is the subcommand's name.
 * They print their own errors and return the exit status.
 */
int command_completion(int argc, char **argv);
int command_disable(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_enable(int argc, char **argv);
int command_env(int argc, char **argv);
int command_fault(int argc, char **argv);
int command_man(int argc, char **argv);
int command_report(int argc, char **argv);
int command_run(int argc, char **argv);
int command_status(int argc, char **argv);
int command_top(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_version(int argc, char **argv);
int command_why(int argc, char **argv);

/* Any other subcommand: runs the tool with this name, or reports an unknown subcommand. */
int command_tool(int argc, char **argv);

#endif
