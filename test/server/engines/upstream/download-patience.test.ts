import { expect, test } from "vitest";
import {
  createDownloadPatience,
  type DownloadFailure,
} from "../../../../src/server/engines/upstream/download-patience.ts";
import type { Upstream } from "../../../../src/server/engines/upstream/upstream.ts";

const reason = "no";
const minutes = 60;

type Case = {
  failure: DownloadFailure;
  /** What else is known: the video is likely gone; the polls find no file in its job; the polls do not find the job. */
  isGone?: boolean;
  hasNoFile?: boolean;
  isJobMissing?: boolean;
  /** Why it is given up, and after how many seconds of nothing else; never within an hour without these. */
  over?: string;
  seconds?: number;
  isSoon: boolean;
};

test.each<Case>([
  { failure: { kind: "temporary", reason }, isSoon: false },
  { failure: { kind: "temporary", reason }, isGone: true, hasNoFile: true, isSoon: false },
  { failure: { kind: "unusable address", reason }, isGone: true, isSoon: false },
  { failure: { kind: "not ready", reason }, over: "absent", seconds: 30 * minutes, isSoon: false },
  { failure: { kind: "nowhere", reason }, over: "absent", seconds: 30 * minutes, isSoon: false },
  { failure: { kind: "missing", reason }, over: "absent", seconds: 30 * minutes, isSoon: true },
  { failure: { kind: "unfinished", reason }, over: "absent", seconds: 30 * minutes, isSoon: false },
  { failure: { kind: "denied", reason }, over: "absent", seconds: 30 * minutes, isSoon: false },
  { failure: { kind: "fault", reason, digest: "1" }, over: "same file", seconds: 60, isSoon: false },
  { failure: { kind: "missing", reason }, isGone: true, over: "gone", seconds: 60, isSoon: true },
  { failure: { kind: "denied", reason }, isGone: true, over: "gone", seconds: 60, isSoon: false },
  { failure: { kind: "missing", reason }, isJobMissing: true, over: "forgotten", seconds: 61, isSoon: true },
  // Only a minute of nothing but 404s counts.
  { failure: { kind: "not ready", reason }, isJobMissing: true, over: "absent", seconds: 30 * minutes, isSoon: false },
  { failure: { kind: "denied", reason }, isJobMissing: true, over: "absent", seconds: 30 * minutes, isSoon: false },
  { failure: { kind: "missing", reason, isJson: true }, hasNoFile: true, over: "no file", seconds: 60, isSoon: true },
  // That is a proxy's.
  { failure: { kind: "missing", reason }, hasNoFile: true, over: "absent", seconds: 30 * minutes, isSoon: true },
])("%o", ({ failure, over, seconds, isSoon, isGone = false, hasNoFile = false, isJobMissing = false }) => {
  let now = 0;
  const upstream = { io: { now: () => now }, patienceMs: 30 * 60_000 } as unknown as Upstream;
  const patience = createDownloadPatience(upstream);
  const first = patience.decide(failure, { isLikelyGone: isGone, hasNoFile });
  expect(first).toMatchObject({ reachedLimit: undefined, isRetriedSoon: isSoon });
  let verdict = first;
  let passed = 0;
  for (; verdict.reachedLimit === undefined && passed < 3_600; passed++) {
    patience.recordPoll({ isMissing: isJobMissing, hasNoFile });
    now += 1_000;
    verdict = patience.decide(failure, { isLikelyGone: isGone, hasNoFile });
  }
  expect([verdict.reachedLimit, passed]).toEqual([over, seconds ?? 3_600]);
});
