import { describe, expect, test } from "vitest";
import { type SubmitSignals, submitOnce } from "../../../../src/server/engines/upstream/submit.ts";
import type { Upstream } from "../../../../src/server/engines/upstream/upstream.ts";
import { createStoppableClock } from "../../../clock.ts";

describe("a service that is stopped, as by Ctrl-Z, while the reply to a create is on its way", () => {
  test.each([
    ["while it waits", 1_000, false],
    ["right before its limit", 59_950, false],
    ["while it ends", 9_950, true],
  ])("reads the job that has arrived (%s)", async (_, waitMs, isEnding) => {
    const clock = createStoppableClock();
    const ending = new AbortController();
    const upstream = { name: "a provider", io: clock, timeoutMs: 60_000 } as unknown as Upstream;
    const send = async ({ signal, beforeSend, onReceived }: SubmitSignals) => {
      beforeSend();
      if (isEnding) ending.abort(new Error("stopping"));
      await clock.wait(waitMs);
      await clock.pass(3_600_000);
      signal.throwIfAborted();
      onReceived();
      return { kind: "submitted" as const, submitted: { job: "job-1" } };
    };
    const checkpoints: unknown[] = [];
    const checkpoint = async (state: unknown) => void checkpoints.push(state);
    const options = { checkpoint, confirm: () => {}, signal: ending.signal };
    expect(await submitOnce(send, upstream, options)).toMatchObject({ kind: "submitted" });
    expect(checkpoints.at(-1)).toEqual({ state: "submitted", job: "job-1" });
  });
});
