import { PassThrough } from "node:stream";
import { Client, type Transport } from "@modelcontextprotocol/client";
import { main } from "../../src/cli/main.ts";
import type { World } from "../vidgen.ts";

/** What a tool has returned: its document, or its error. */
export type Answer = { isError: boolean; text: string; value: Record<string, unknown> };

export type Agent = {
  client: Client;
  call(name: string, args?: Record<string, unknown>, options?: Parameters<Client["callTool"]>[1]): Promise<Answer>;
  /** Writes a line as it is, and returns what is answered to it. */
  raw(line: string): Promise<unknown>;
  /** Ends stdin and returns the exit code. */
  leave(): Promise<number>;
  ended: Promise<number>;
  /** Everything that has been printed. */
  printed: { stdout: string; stderr: string };
};

/** Runs `vidgen mcp` in this process and connects the official client to its stdin and stdout. */
export async function connectAgent(world: World, ...flags: string[]): Promise<Agent> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const printed = { stdout: "", stderr: "" };
  stderr.on("data", (text) => (printed.stderr += text));
  const argv = ["mcp", "--dir", world.folder, ...flags];
  const ended = main(argv, { ...world.io, env: world.env, stdin, stdout, stderr });
  const { transport, raw } = createTransport(stdin, stdout, (text) => (printed.stdout += text));
  const client = new Client({ name: "agent", version: "1" });
  await Promise.race([client.connect(transport), ended]);
  return {
    client,
    printed,
    ended,
    raw,
    call: async (name, args = {}, options) => readAnswer(await client.callTool({ name, arguments: args }, options)),
    leave: () => {
      stdin.end();
      return ended;
    },
  };
}

export function readAnswer(result: Awaited<ReturnType<Client["callTool"]>>): Answer {
  const [content] = result.content as { text: string }[];
  const text = content?.text ?? "";
  return { isError: result.isError === true, text, value: JSON.parse(text) };
}

function createTransport(stdin: PassThrough, stdout: PassThrough, onText: (text: string) => void) {
  let rest = "";
  let waiting: ((message: unknown) => void) | undefined;
  const transport: Transport = {
    async start() {
      stdout.on("data", (chunk) => {
        onText(String(chunk));
        rest += chunk;
        const lines = rest.split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) {
          const message = JSON.parse(line);
          if (waiting) waiting(message);
          else transport.onmessage?.(message);
          waiting = undefined;
        }
      });
    },
    send: async (message) => void stdin.write(`${JSON.stringify(message)}\n`),
    close: async () => void stdin.end(),
  };
  const raw = (line: string) =>
    new Promise((resolve) => {
      waiting = resolve;
      stdin.write(`${line}\n`);
    });
  return { transport, raw };
}
