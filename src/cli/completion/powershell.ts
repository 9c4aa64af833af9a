import type { Word } from "../command.ts";
import { type CommandWords, type FlagWords, type Value, type Vocabulary, valueFlags } from "./words.ts";

/** The script for PowerShell, which completes file names by itself where nothing else is offered. */
export function formatPowershell(words: Vocabulary): string {
  const { commands, flags } = words;
  const takesValue = valueFlags(words);
  const known = takesValue.filter(({ value }) => value !== "anything" && value !== "files");
  const flagRows = (of: FlagWords[]) => of.map(({ long, description }) => [long, description] as const);
  return `# Completion of vidgen for PowerShell. In $PROFILE: vidgen completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName vidgen -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $typed = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | Select-Object -Skip 1 | ForEach-Object { $_.Extent.Text })
    $command = ''; $flag = ''; $over = $false; $seen = 0
    foreach ($word in $typed) {
        if ($flag -ne '') { $flag = '' }
        elseif (-not $over -and $word -ceq '--') { $over = $true }
        elseif (-not $over -and $word.Length -gt 1 -and $word.StartsWith('-')) {
            if (@(${list(takesValue.flatMap(({ names }) => names))}) -ccontains $word) { $flag = $word }
        }
        elseif ($command -eq '') { $command = $word }
        else { $seen++ }
    }
    $rows = @(); $kind = ''
    if ($flag -ne '') {
        switch -CaseSensitive ($flag) {
${known.flatMap(({ names, value }) => names.map((name) => `            '${name}' { ${assign(value)} }`)).join("\n")}
        }
    } elseif (-not $over -and "$wordToComplete".StartsWith('-')) {
        switch -CaseSensitive ($command) {
            '' { ${assign(flagRows(flags))} }
${commands.map(({ name, flags: own }) => `            '${name}' { ${assign(flagRows([...own, ...flags]))} }`).join("\n")}
        }
    } elseif ($command -eq '') {
        ${assign(commands.map(({ name, summary }) => [name, summary] as const))}
    } else {
        switch -CaseSensitive ($command) {
${commands
  .filter(({ argument }) => argument.value !== "anything")
  .map(({ name, argument }) => `            '${name}' { ${unlessSeen(argument)} }`)
  .join("\n")}
        }
    }
    if ($kind -eq 'ids') {
        $rows = @(& vidgen __complete ids 2>$null | ForEach-Object { $_ -replace "\`t", '|' })
    }
    foreach ($row in $rows) {
        $name, $tip = $row -split '\\|', 2
        if ($name.StartsWith("$wordToComplete", [StringComparison]::Ordinal)) {
            [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $tip)
        }
    }
}`;
}

function unlessSeen({ value, isVariadic }: CommandWords["argument"]): string {
  return isVariadic ? assign(value) : `if ($seen -eq 0) { ${assign(value)} }`;
}

function assign(value: Value): string {
  return typeof value === "string" ? `$kind = '${value}'` : `$rows = @(${list(value.map(formatRow))})`;
}

/** A tip is never empty: PowerShell would not take it. */
function formatRow([word, description]: Word): string {
  return `${word}|${description || word}`;
}

function list(words: string[]): string {
  return words.map((word) => `'${word.replaceAll("'", "''")}'`).join(", ");
}
