# SPDX-License-Identifier: BSD-2-Clause
# Completion of usrdma for bash. The command prints the words.
_usrdma()
{
	local current=${COMP_WORDS[COMP_CWORD]}

	mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" completion "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)" \
		-- "$current")
}
complete -o default -F _usrdma usrdma
