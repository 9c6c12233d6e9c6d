# SPDX-License-Identifier: BSD-2-Clause
# Completion of usrdma for fish. The command prints the words.
complete -c usrdma -a '(set -l words (commandline -opc); $words[1] completion $words[2..-1] 2>/dev/null)'
