import { exits } from "../../errors.ts";

/** What an agent does at each exit code. A command in it is run by a test. */
export const actions: Readonly<Record<keyof typeof exits, string>> = {
  ok: "it worked: the id, URL or file is on stdout",
  rejected: "with an id: `vidgen status <id> --json`; without: change the request, do not repeat it",
  bug: "a bug in vidgen: report it; `vidgen list --limit 5 --json` has what was started",
  usage: "nothing was sent: correct the line; `vidgen help generate` has every flag",
  auth: "the person must type `vidgen login`; then the same line again",
  failed: "the message says why; another try is charged, also of the same line: ask the person",
  pending: "still running: `vidgen wait <id> --timeout 50s`; after 30 minutes tell the person",
  unknown: "stop: it may have been charged, see Money",
  credits: "not enough, or the budget is reached: tell the person, do not repeat it",
  network: "not reached, or too busy: the same line in a minute, 3 times at most; `vidgen doctor`",
  output: "with an id: `vidgen wait <id> -o b.mp4 --timeout 50s`; without: take another -o",
  not_found: "no such id: `vidgen list --json` has them; do not start another because of it",
  hung_up: "cut short: the same line again",
  interrupted: "cut short: the same line again",
  terminated: "cut short: the same line again",
};

/** The names of the code's own tables that the page shows. */
type Names = { events: readonly string[]; errorFields: readonly string[] };

/** The page of `vidgen help agents`, in Markdown: all that an AI agent needs, under 60 lines. A test runs each command in it. */
export function formatAgentsPage({ events, errorFields }: Names): string {
  const codes = Object.entries(exits).map(([name, { exit }]) => {
    const action = actions[name as keyof typeof exits];
    return `    ${String(exit).padEnd(3)} ${name.padEnd(11)}  ${action}`;
  });
  const fields = errorFields.map((name) => `"${name}"`).join(",");
  return `# vidgen for AI agents
vidgen turns a prompt into an .mp4 at a video service, in 1 to 3 minutes. A start costs credits; to wait, look
and save is free. Where \`vidgen\` is no command: node <clone>/bin/vidgen.js (npx may fetch another's).

## One video
    vidgen generate "a fox in snow" --reuse --no-wait --json         # prints the id at once
    vidgen wait <id> -o fox.mp4 --timeout 50s --json                 # exit 5: the same line again
    vidgen generate "a fox in snow" --reuse -o fox.mp4 --timeout 50s # both in one; exit 5: the same again
Always give --reuse: the same request, letter for letter, is then one generation for 24 hours, and paid once.
Without it, one that ended, runs in the background or was started with --no-wait is paid again, and only one
that was interrupted or timed out is resumed, for 12 hours.
Keep --timeout (default 15m) below your tool's limit, often 1 to 10 minutes; the start comes on top: a second,
at worst 4 minutes. Was it cut (also 124, 137)? The same line again: no id is lost. A second video of the same
request, if the person wants it: --again in place of --reuse; was that cut, look at \`vidgen list\` first.

## The rest
    vidgen status <id> --json                                        # one look
    vidgen list --limit 5 --json                                     # what was started here, newest first
    vidgen models --json                                             # ids for -m, what each is good at
    vidgen generate @prompt.txt -m veo-3.1 -d 8 --reuse --dry-run    # sends nothing: what it would do
    vidgen generate "a fox" --local -d 1 -o try.mp4 --timeout 50s    # a free preview; exit 5: the same again
    vidgen batch shots.csv --dry-run                                 # columns id,prompt,model; the plan
    vidgen batch shots.csv -o '{id}.mp4' --max-credits 200 --json    # exit 5: the same line again
    vidgen batch status shots.csv.results.jsonl --json               # counts; exit 5: not all are done
    vidgen doctor --json                                             # what is wrong, and the fix
A batch takes long: run it in the background. Was it cut, the same line goes on; exit 2, "runs this batch": it
still runs. A prompt with quotes, $, or - or @ in front goes into a file: @prompt.txt. Never leave it out.
\`vidgen mcp\` serves tools over stdio: generate_video, get_video, save_video, list_videos, list_models and
get_credits. Start with the tools or in the shell, never the same in both: it would be charged twice.

## Output
Results are on stdout, all else on stderr. --json: one document on stdout (id, status, video_url, file, ...),
an error as one on stderr: {"error":{${fields}}}.
--events (generate, wait, batch): JSON lines: ${events.join(", ")}.
"started" has the id; "summary" is the last, with exit_code: if it is missing, vidgen was killed.
-o takes a file, a folder/ or a name with {id}; it replaces none without --overwrite, and leaves no half one.

## Exit codes
${codes.join("\n")}

## Money and keys
Exit 6: do not send it again. \`vidgen list --status unknown --json\` has the attempt; the person must look into
the account. Is a video there: \`vidgen wait <id> -o fox.mp4 --timeout 50s\`. Only the person decides about
\`vidgen list --dismiss <attempt>\` (then the same line starts anew), --again, --retry-unknown, --retry-failed.
The person gives the key, by \`vidgen login\` or VIDGEN_API_KEY: never in a command line, a file or a message.`;
}

/** The page as a skill for an agent: a Markdown file whose front matter says when to read it. */
export function formatSkill(page: string): string {
  return `---
name: vidgen
description: Makes AI videos (.mp4) from a prompt or an image with the vidgen command line, one or many, through a paid service or as a free local preview. Read it before any vidgen command, so that no video is paid for twice and none is lost.
---

${page}`;
}
