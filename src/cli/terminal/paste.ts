import { Transform } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { Io } from "../../io.ts";

const escapeKey = "\u001b";
const beginMark = `${escapeKey}[200~`;
const marks = new RegExp(`(${escapeKey}\\[20[01]~)`);
/** The beginning of a mark at the end of a chunk. */
const cutMark = new RegExp(`${escapeKey}(?:\\[(?:2(?:0[01]?)?)?)?$`);

/**
 * Runs a question whose answer may be pasted: the terminal marks what is pasted ("bracketed paste"), and each
 * line break and control character in it becomes a space, since a line break would end the answer. A terminal
 * that does not mark it behaves as without this.
 */
export async function withPaste<Answer>(
  { stdin, stderr }: Pick<Io, "stdin" | "stderr">,
  question: (input: Io["stdin"]) => Promise<Answer>,
): Promise<Answer> {
  const input = Object.assign(createPasteFilter(), {
    isTTY: true,
    setRawMode: (mode: boolean) => stdin.setRawMode?.(mode),
  });
  stderr.write(`${escapeKey}[?2004h`);
  stdin.pipe(input);
  try {
    return await question(input as unknown as Io["stdin"]);
  } finally {
    stdin.unpipe(input).pause();
    stderr.write(`${escapeKey}[?2004l`);
  }
}

function createPasteFilter(): Transform {
  const decoder = new StringDecoder("utf8");
  let isPasted = false;
  let rest = "";
  return new Transform({
    transform(chunk, _, done) {
      const text = rest + decoder.write(chunk);
      const [cut = ""] = cutMark.exec(text) ?? [];
      const parts = text.slice(0, text.length - cut.length).split(marks);
      let line = "";
      for (const part of parts) {
        if (marks.test(part)) isPasted = part === beginMark;
        else line += isPasted ? part.replace(/\p{Cc}+/gu, " ") : part;
      }
      // The Escape key alone is no mark.
      const isKey = cut === escapeKey && !isPasted;
      rest = isKey ? "" : cut;
      done(null, isKey ? line + cut : line);
    },
  });
}
