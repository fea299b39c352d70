# Completion of ecrec for bash. For one session:  source <(ecrec completion bash)
# For all: write it to ~/.local/share/bash-completion/completions/ecrec
_ecrec() {
	local -a words
	local line prefix current=${COMP_WORDS[COMP_CWORD]}
	# COMP_WORDS is split at = and :, which config keys and faults hold.
	read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
	[[ ${COMP_LINE:0:COMP_POINT} != *[[:space:]] ]] || words+=("")
	[[ $current != [=:] ]] || current=
	prefix=${words[${#words[@]} - 1]}
	prefix=${prefix%"$current"}
	COMPREPLY=()
	while IFS=$'\t' read -r line _; do
		COMPREPLY+=("${line#"$prefix"}")
	done < <("${COMP_WORDS[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
	[[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *[/=] ]] || compopt -o nospace 2>/dev/null
}
complete -o bashdefault -o default -F _ecrec ecrec
