import { Agent, request } from "node:http";

/** A reply, with its JSON. */
export type Answer = { status: number; retryAfter: string | undefined; json: Record<string, unknown> };

export type Asked = { method?: string; headers?: Record<string, string>; body?: string };

const answerLimitMs = 20_000;

/** Connections that are kept alive, so many of them at the most. */
export function createAgent(maxSockets: number): Agent {
  return new Agent({ keepAlive: true, maxSockets });
}

/** Asks over plain HTTP. Rejects when there is no whole reply, and when that is no JSON. */
export function ask(agent: Agent, url: string, { method = "GET", headers = {}, body }: Asked = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { agent, method, headers, timeout: answerLimitMs }, (reply) => {
      let text = "";
      reply.setEncoding("utf8").on("data", (chunk) => (text += chunk));
      reply.once("error", reject);
      reply.once("close", () => (reply.complete ? undefined : reject(new Error("the reply broke off"))));
      reply.once("end", () => {
        try {
          resolve({ status: reply.statusCode ?? 0, retryAfter: reply.headers["retry-after"], json: JSON.parse(text) });
        } catch (error) {
          reject(error);
        }
      });
    });
    asking.once("timeout", () => asking.destroy(new Error(`no response within ${answerLimitMs / 1_000} s`)));
    asking.once("error", reject).end(body);
  });
}
