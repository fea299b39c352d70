#compdef ecrec
# Completion of ecrec for zsh: write it as _ecrec into a folder of $fpath.
_ecrec() {
	local line
	local -a plain open
	for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[[ -n $line ]] || continue
		local text=${line%%$'\t'*} help=
		[[ $line != *$'\t'* ]] || help=":${line#*$'\t'}"
		if [[ $text == *[/=] ]]; then
			open+=("${text//:/\\:}$help")
		else
			plain+=("${text//:/\\:}$help")
		fi
	done
	if (( ! $#plain && ! $#open )); then
		_files
		return
	fi
	(( ! $#plain )) || _describe ecrec plain
	(( ! $#open )) || _describe ecrec open -S ''
}
if [[ ${funcstack[1]} == _ecrec ]]; then
	_ecrec "$@"
else
	compdef _ecrec ecrec
fi
