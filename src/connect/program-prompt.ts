import { findFileDoubt } from "../client/request/doubtful-prompt.ts";
import { findMentions, findMisspelt } from "../client/request/references.ts";
import { usage, type VidgenError } from "../errors.ts";
import { findProject } from "./project.ts";

type ProjectIo = Parameters<typeof findProject>[0];

/**
 * The error of a prompt from an agent or a program, which cannot be asked, that is only the name of a file or an address, or that names a reference of
 * vidgen.json; `undefined` for other prompts.
 */
export async function findPromptError(
  prompt: string,
  stat: Parameters<typeof findFileDoubt>[1],
  io: ProjectIo,
): Promise<VidgenError | undefined> {
  const file = await findFileDoubt(prompt.trim().replace(/^@/, ""), stat);
  const reason = file ? `The prompt ${file.text}.` : await findReferenceDoubt(prompt, io);
  if (reason === undefined) return undefined;
  const meant = file === undefined ? "reference" : file.meant;
  const hints = [...(meant === undefined ? [] : [advice[meant]]), "exactPrompt: true sends these words unchanged."];
  return usage(`${reason} Nothing was sent.`, hints.join(" "));
}

const advice = {
  text: "Pass the text of this file as the prompt.",
  image: "Pass it in images, beside a prompt.",
  video: "Pass it in from, beside a prompt.",
  reference: "Write the name without @, and pass its images where the model takes references.",
};

async function findReferenceDoubt(prompt: string, io: ProjectIo): Promise<string | undefined> {
  if (!prompt.includes("@")) return undefined;
  // A file that cannot be used names no references.
  const { references = new Map() } = (await findProject(io).catch(() => undefined)) ?? {};
  const [known] = findMentions(prompt, references);
  const found = known === undefined ? findMisspelt(prompt, references) : { typed: `@${known}`, guess: `@${known}` };
  return (
    found &&
    `${found.typed} is probably the reference ${found.guess} of vidgen.json, which only the command line replaces.`
  );
}
