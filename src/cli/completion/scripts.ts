/** The completion scripts for each shell. They call `vidgen __complete`, and never evaluate what is typed or printed. */
export const scripts = {
  bash: `# Completion of vidgen for bash. In ~/.bashrc: source <(vidgen completion bash)
_vidgen() {
  COMPREPLY=()
  # bash splits words at = and : as well; here they are put together again, up to the cursor.
  local line=\${COMP_LINE:0:COMP_POINT} words=("\${COMP_WORDS[0]}") piece i
  line=\${line#*"\${COMP_WORDS[0]}"}
  for ((i = 1; i <= COMP_CWORD; i++)); do
    piece=\${COMP_WORDS[i]}
    if [[ $line == [[:space:]]* ]]; then
      line=\${line#"\${line%%[![:space:]]*}"}
      words+=("")
    fi
    [[ $line == "$piece"* ]] || piece=$line
    words[\${#words[@]} - 1]+=$piece
    line=\${line#"$piece"}
  done
  local last=$((\${#words[@]} - 1))
  ((last > 0)) || return 0

  # bash replaces only what follows the last = or : of the current word.
  local current=\${words[last]} cut=''
  [[ $COMP_WORDBREAKS == *=* && $current == *=* ]] && cut=\${current%"\${current##*=}"}
  [[ $COMP_WORDBREAKS == *:* && \${current#"$cut"} == *:* ]] && cut=\${current%"\${current##*:}"}
  compopt -o nosort 2>/dev/null
  while IFS=$'\\t' read -r piece _; do
    if [[ $piece == :files ]]; then
      # The shell would expand such a word, so it is not the beginning of a file name.
      [[ $current == *['$\`']* ]] || compopt -o default 2>/dev/null
    elif [[ $piece == "$current"* ]]; then
      COMPREPLY+=("\${piece#"$cut"}")
    fi
  done < <(command vidgen __complete "--current=$current" -- "\${words[@]:1:last-1}" 2>/dev/null </dev/null)
  return 0
}
complete -F _vidgen vidgen`,

  zsh: `#compdef vidgen
# Completion of vidgen for zsh. In ~/.zshrc, after compinit: source <(vidgen completion zsh)
_vidgen() {
  local piece about
  local -a found shown
  while IFS=$'\\t' read -r piece about; do
    found+=("$piece") shown+=("$piece  $about")
  done < <(command vidgen __complete "--current=$PREFIX" -- "\${(@)words[2,CURRENT-1]}" 2>/dev/null </dev/null)
  if [[ $found[1] == :files ]]; then
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    # The shell would expand such a word, so it is not the beginning of a file name.
    [[ $PREFIX == *[\\$\\\`]* ]] || _files
  else
    compadd -V vidgen -l -d shown -a found
  fi
}
if [[ $funcstack[1] == _vidgen ]]; then
  _vidgen
else
  compdef _vidgen vidgen
fi`,

  fish: `# Completion of vidgen for fish. In ~/.config/fish/config.fish: vidgen completion fish | source
function __vidgen_rows
    set -l typed (commandline -opc)
    set -e typed[1]
    set -l current (commandline -ct)
    for row in (command vidgen __complete "--current=$current" -- $typed 2>/dev/null </dev/null)
        if test "$row" != :files
            printf '%s\\n' "$row"
        else if not string match -qr '[$(\`]' -- "$current"
            # The shell would expand such a word, so it is not the beginning of a file name.
            set -l flag (string match -r -- '^--[^=]*=' "$current")
            # The arguments of an empty command are file names.
            for path in (complete -C "'' "(string replace -- "$flag" '' "$current"))
                printf '%s\\n' "$flag$path"
            end
        end
    end
end
complete -c vidgen -e
complete -c vidgen -f -k -a '(__vidgen_rows)'`,

  powershell: `# Completion of vidgen for PowerShell. In $PROFILE: vidgen completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName vidgen -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    # Windows PowerShell would split an argument at a quote in it.
    $typed = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | Select-Object -Skip 1 | ForEach-Object { $_.Extent.Text -replace '["'']', '' })
    & vidgen __complete "--current=$wordToComplete" '--' @typed 2>$null | ForEach-Object {
        $word, $about = $_ -split "\`t", 2
        # PowerShell completes file names by itself when nothing else is offered; it rejects an empty tooltip.
        if ($word -ne ':files' -and $word.StartsWith("$wordToComplete", [StringComparison]::Ordinal)) {
            if (-not $about) { $about = $word }
            [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $about)
        }
    }
}`,
};
