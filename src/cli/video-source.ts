import { findEngineKey, openRouter } from "../connect/keys.ts";
import { saveEngineKey } from "../connect/settings.ts";
import type { Context } from "./context.ts";
import { programName } from "./terminal/output.ts";
import { askChoice, askSecret, askWhether, checkedBy } from "./terminal/prompts.ts";

/** What can make videos for somebody who is not logged in. */
const sources = [
  { value: "previews", name: "previews, drawn here: no account, no credits" },
  { value: "openrouter", name: "OpenRouter, with your key: real videos" },
  { value: "other", name: "fal, Replicate or your own GPU: what to type" },
  { value: "service", name: "another service: its base URL and a key" },
] as const;

export type Source = Exclude<(typeof sources)[number]["value"], "other">;

/** What to type for an engine that no answer of the menu can set up. */
const otherEngines = `fal and Replicate need a package of the AI SDK, and --engine names it:
  export FAL_KEY='<key>'; npm install @ai-sdk/fal@latest
  vidgen generate "a red fox" -m veo-3.1 --engine "veo-3.1=ai-sdk:@ai-sdk/fal#fal-ai/veo3.1"
A server of your own is named by its address:
  vidgen generate "a red fox" -m wan-2.5 --engine wan-2.5=http://gpu-1:8091
More: \`vidgen help real-models\``;

/**
 * Asks what should make the videos, and for the key of a provider. An answer that only explains what to type
 * is followed by the same question.
 */
export async function askSource(question: string, context: Context): Promise<Source> {
  for (;;) {
    const source = (await askChoice(question, [...sources], "previews", context.io)) as Source | "other";
    if (source === "openrouter") await askProviderKey(context);
    if (source !== "other") return source;
    context.output.note(otherEngines);
  }
}

/** Asks for the key of OpenRouter unless there is one, for this run; saves it only after a yes. */
async function askProviderKey({ io, output }: Context): Promise<void> {
  const { variable, engine, origin } = openRouter;
  if (findEngineKey(variable, io) !== undefined) return;
  const { checkApiKey } = await import("../client/http/redaction.ts");
  const { checkEngineKey } = await import("../connect/local.ts");
  const check = checkedBy((text) => checkEngineKey(engine, checkApiKey(text), io));
  const key = checkApiKey(await askSecret(`API key for ${origin}:`, check, io));
  output.hide(key);
  // For this run.
  Object.assign(io, { env: { ...io.env, [variable]: key } });
  if (await askWhether("Save the key, and use OpenRouter from now on?", false, io))
    output.note(`Saved in plain text in ${await saveEngineKey(engine, { origin, key }, io)}.`);
  else output.note(`The key is not saved. To use it again, set ${variable}, and add --engine ${engine}.`);
}

/** The command that makes a first video with a source. */
export function firstCommand(source: Source, outputFlag: string, { env }: Context["io"]): string {
  const flags = { previews: " --local", openrouter: " -m veo-3.1 --engine openrouter", service: "" };
  return `${programName(env)} generate "a red fox runs through snow at dusk"${flags[source]}${outputFlag}`;
}
