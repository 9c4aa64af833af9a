import type { Io } from "../io.ts";
import { exportLine, type ShellIo, shellOf } from "../shell.ts";
import { programName } from "./terminal/output.ts";
import { askChoice } from "./terminal/prompts.ts";

/** What a user who is not logged in may have. */
const services = [
  { value: "provider", name: "a provider's key (OpenRouter, fal, Replicate, ...)" },
  { value: "service", name: "a company's service: its base URL and a key" },
  { value: "local", name: "previews on this machine: no account, no credits" },
] as const;

type ServiceChoice = (typeof services)[number]["value"];

export async function askService(question: string, io: Io): Promise<ServiceChoice> {
  return (await askChoice(question, [...services], "service", io)) as ServiceChoice;
}

/** How to generate with a provider: the commands to type. */
export function describeProviders(io: ShellIo): string {
  const { env } = io;
  const name = programName(env);
  const key = env.OPENROUTER_API_KEY ? [] : [`  ${exportLine("OPENROUTER_API_KEY", "<key>", shellOf(io))}`];
  return [
    "With OpenRouter, whose key stays in a variable:",
    ...key,
    `  ${name} generate "a red fox" -m veo-3.1 --engine openrouter -o fox.mp4`,
    `To use it without --engine: ${name} config set engine openrouter`,
    `fal, Replicate and others, and your own GPUs: ${name} help real-models`,
  ].join("\n");
}
