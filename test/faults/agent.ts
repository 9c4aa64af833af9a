import process from "node:process";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { type Answer, readAnswer } from "../mcp/agent.ts";
import type { Env } from "./client.ts";
import { bin } from "./spawned.ts";

/** An AI agent with a built `vidgen mcp` of its own, in a process, over stdio. */
export type SpawnedAgent = {
  pid: number;
  /** Rejects when the server ends before it has answered. */
  call(name: string, args: Record<string, unknown>): Promise<Answer>;
  kill(signal: NodeJS.Signals): void;
  close(): Promise<void>;
  stderr(): string;
};

/** `within` are the words of a program that runs it, such as nsenter. */
export async function spawnAgent(
  env: Env,
  cwd: string,
  flags: string[] = [],
  within: string[] = [],
): Promise<SpawnedAgent> {
  const [command = "", ...args] = [...within, process.execPath, bin, "mcp", ...flags];
  const transport = new StdioClientTransport({
    command,
    args,
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...env },
    cwd,
    stderr: "pipe",
  });
  let stderr = "";
  transport.stderr?.on("data", (text) => (stderr += text));
  const client = new Client({ name: "agent", version: "1" });
  await client.connect(transport);
  const pid = transport.pid ?? 0;
  return {
    pid,
    call: async (name, args) => readAnswer(await client.callTool({ name, arguments: args })),
    kill: (signal) => void process.kill(pid, signal),
    close: () => client.close(),
    stderr: () => stderr,
  };
}
