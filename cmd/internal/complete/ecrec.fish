# Completion of ecrec for fish: write it to ~/.config/fish/completions/ecrec.fish
function __ecrec_complete
	set -l words (commandline -opc)
	set -l found ($words[1] __complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
	if test (count $found) -gt 0
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c ecrec -f -a '(__ecrec_complete)'
