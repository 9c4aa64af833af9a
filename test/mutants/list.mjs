/**
 * Changes of one line, each of which breaks one cell or sentence of .github/MONEY.md on purpose. `text` occurs once in the file. `tests` are the fast tests
 * that are most likely to find it.
 */
const attempt = { file: "src/client/ledger/attempt.ts", tests: ["test/client/ledger/tables.test.ts"] };
const policy = {
  file: "src/client/ledger/policy.ts",
  tests: [
    "test/client/ledger/tables.test.ts",
    "test/client/generation/start.test.ts",
    "test/cli/commands/same-run.test.ts",
  ],
};
const sharedKey = {
  file: "src/client/ledger/shared-key.ts",
  tests: ["test/client/generation/start.test.ts", "test/cli/commands/sent-again.test.ts"],
};
const send = {
  file: "src/client/generation/send.ts",
  tests: [
    "test/client/generation/send.test.ts",
    "test/client/generation/start.test.ts",
    "test/cli/commands/sent-again.test.ts",
  ],
};
const start = {
  file: "src/client/generation/start.ts",
  tests: ["test/client/generation/start.test.ts", "test/cli/commands/sent-again.test.ts"],
};
const list = {
  file: "src/cli/commands/list.ts",
  tests: ["test/cli/commands/sent-again.test.ts", "test/cli/commands/list.test.ts"],
};
const service = {
  file: "src/client/ledger/same-service.ts",
  tests: ["test/client/ledger/changed-line.test.ts", "test/cli/commands/spellings.test.ts"],
};

export const mutants = [
  {
    ...attempt,
    breaks: "table 1: running, unclear: unknown",
    text: 'failed: "failed", unclear: "unknown", lost: "lost" }',
    replacement: 'failed: "failed", unclear: "failed", lost: "lost" }',
  },
  {
    file: "src/client/ledger/line.ts",
    breaks: "Project: an attempt of another project counts only with an equal request and place",
    text: "if (isOlder(entry) || entry.project === project) return true;",
    replacement: "if (isOlder(entry) || entry.project !== project) return true;",
    tests: ["test/client/ledger/changed-line.test.ts", "test/cli/project.test.ts"],
  },
  {
    ...policy,
    breaks: "table 2: unknown, alive, the same run: wait for the answer",
    text: '{ states: ["unknown"], leases: ["alive"], resume: "wait"',
    replacement: '{ states: ["unknown"], leases: ["alive"], resume: "pass"',
  },
  {
    ...policy,
    breaks: "table 2: unknown, alive, --again: pass",
    text: '{ states: ["unknown"], leases: ["alive"], resume: "wait", reuse: "wait", again: "pass"',
    replacement: '{ states: ["unknown"], leases: ["alive"], resume: "wait", reuse: "wait", again: "dismiss"',
  },
  {
    ...policy,
    breaks: "table 2: sending or unknown, dead, the same run: send again, else refuse 6",
    text: 'resume: "send again"',
    replacement: 'resume: "pass"',
  },
  {
    ...policy,
    breaks: "May be the same service: at another path of the origin, an open attempt stops a start",
    text: "return stop ?? (await findStopElsewhere(entries, wanted)) ?? choice;",
    replacement: "return stop ?? choice;",
    tests: [
      "test/client/ledger/changed-line.test.ts",
      "test/cli/commands/same-run.test.ts",
      "test/client/generation/start.test.ts",
    ],
  },
  {
    ...policy,
    breaks: "Place: if either place was typed, another place is another video",
    text: "if (!isSamePlace && (line.isPlaceTyped || entry.place_typed)) return undefined;",
    replacement: "",
    tests: [
      "test/client/ledger/changed-line.test.ts",
      "test/cli/commands/spellings.test.ts",
      "test/cli/project.test.ts",
    ],
  },
  {
    ...policy,
    breaks: "table 2: lost, the same run: refuse 10",
    text: '{ states: ["lost"], resume: "refuse lost"',
    replacement: '{ states: ["lost"], resume: "pass"',
  },
  {
    ...policy,
    breaks: "Order: a resume or join wins over a refuse",
    text: 'if (choice?.kind === "resume") return choice;',
    replacement: 'if (choice?.kind === "resume" && stops.length === 0) return choice;',
  },
  {
    ...policy,
    breaks: "Order: a key is sent again only if no other attempt stops the line",
    text: '"key" in stop && stop.key === first.key && stop.entry.id === undefined',
    replacement: '"key" in stop && stop.entry.id === undefined',
    tests: ["test/cli/commands/sent-again.test.ts"],
  },
  {
    ...policy,
    breaks: "Place: ready goes anywhere, but not with --again",
    text: 'isSameOutput(entry, wanted) || (entry.state === "ready" && earlier !== "again")',
    replacement: 'isSameOutput(entry, wanted) || entry.state === "ready"',
  },
  {
    ...policy,
    breaks: "Attempts that share a key are one: one with an id decides",
    text: "others.some(hasGeneration)",
    replacement: "others.length < 0",
  },
  {
    ...policy,
    breaks: "Attempts that share a key are one: if several are open, unknown",
    text: 'lease.state === "dead" || others.some(isOpen)',
    replacement: 'lease.state === "dead"',
  },
  {
    ...policy,
    breaks: "wait for the answer: a line that waited takes the generation, whatever the table says",
    text: 'waitedFor?.has(keyOf(entry)) ? "reuse" : earlier',
    replacement: "earlier",
  },
  {
    ...policy,
    breaks: "A run: a position that was delivered stays done when its video is deleted",
    text: 'return entry.state === "delivered" || isIdHandedOver(entry) || wasTold;',
    replacement: 'return (entry.state === "delivered" && !entry.removed) || isIdHandedOver(entry);',
    tests: ["test/cli/commands/several.test.ts", "test/cli/commands/delete.test.ts"],
  },
  {
    ...sharedKey,
    breaks: "send again: the intent of a resend carries the time of the first send",
    text: "(first_sent_at ?? at)",
    replacement: "at",
  },
  {
    ...sharedKey,
    breaks: "send again: without that time, and without the attempt that it resends, nothing is sent",
    text: "if (entries.some(isOfUnknownAge)) return undefined;",
    replacement: "",
  },
  {
    ...sharedKey,
    breaks: "send again: every attempt with the key that may have been charged was sent with this API key",
    text: "mayBeCharged.every((each) => isPaidBy(account, each))",
    replacement: "mayBeCharged.some((each) => isPaidBy(account, each))",
  },
  {
    ...send,
    breaks: "send again: less an hour",
    text: "age < Number(seconds) - keyMarginSeconds",
    replacement: "age < Number(seconds)",
  },
  {
    ...send,
    breaks: "send again: after a resend, refused and unsent are written as unknown",
    text: 'if (!isResend || outcome.kind === "accepted"',
    replacement: 'if (!isResend || outcome.kind === "refused" || outcome.kind === "accepted"',
  },
  {
    ...send,
    breaks: "Before the request, 4: right before the first byte, the lease must be fresh",
    text: "intent.assertFresh();",
    replacement: "",
  },
  {
    ...start,
    breaks: "Before the request, 4: that the attempt was not dismissed",
    text: '?.kind !== "dismissed") return;',
    replacement: "?.kind !== undefined) return;",
  },
  {
    ...list,
    breaks: "Dismissing: refused while a live process has any attempt with the key",
    text: "if (alive !== undefined) throw await workedOnError(typed, alive, named, journal);",
    replacement: "",
  },
  {
    ...service,
    breaks: "Is the same service: the whole base URL",
    text: "return baseUrl === other;",
    replacement: "return mayBeSameService(baseUrl, other);",
  },
  {
    file: "src/client/batch/redo-lines.ts",
    breaks: "A batch: the intent of a redo names what it replaces",
    text: "if (redo === undefined || !mayBePaid(entry)) continue;",
    replacement: "if (redo !== undefined || !mayBePaid(entry)) continue;",
    tests: ["test/client/batch/redo.test.ts"],
  },
];
