/**
 * Changes of one line, each of which breaks on purpose one cell or sentence of .github/MONEY.md, or one promise of README or
 * SECURITY.md: files, keys, and the credits of the local service. `text` occurs once in the file. `tests` are the fast tests that
 * are most likely to find it.
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
const download = { file: "src/client/save/download.ts", tests: ["test/client/save/download.test.ts"] };
const rules = "test/server/store/sqlite/contract.test.ts";

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
  {
    file: "src/client/save/files.ts",
    breaks: "Files: a file that exists is not replaced without --overwrite",
    text: 'if (systemCode(error) === "EEXIST") throw existsError(to);',
    replacement: 'if (systemCode(error) === "EEXIST") return false;',
    tests: ["test/client/save"],
  },
  {
    file: "src/client/save/protected.ts",
    breaks: "Files: the journal and the saved keys are never replaced, whatever their name",
    text: "files.has(file))) return;",
    replacement: "files.has(file))) return;\n    if (file !== undefined) return;",
    tests: ["test/cli/commands/saved.test.ts"],
  },
  {
    ...download,
    breaks: "Files: a video gets its file name only when it is complete",
    text: 'if (fault === undefined) return { kind: "whole" };',
    replacement: 'if (fault === undefined || fault.mayBeVideo) return { kind: "whole" };',
  },
  {
    ...download,
    breaks: "Files: a download that is cut off is not complete",
    text: "if (total !== undefined && received.size !== total) {",
    replacement: "if (total !== undefined && received.size > total) {",
  },
  {
    ...download,
    breaks: "Files: a download continues only with the same version of the video",
    text: "const isSame = isSameVersion(received.version, headers, total);",
    replacement: "const isSame = true;",
    tests: ["test/client/save"],
  },
  {
    ...download,
    breaks: "Files: a download over https is not redirected to plain http",
    text: 'nextUrl.protocol === "https:" || (nextUrl.protocol === "http:" && currentUrl.startsWith("http:"))',
    replacement: "/^https?:$/.test(nextUrl.protocol)",
  },
  {
    file: "src/client/http/redaction.ts",
    breaks: "Keys: a key is in no output, also where it is encoded",
    text: "const forms = new Set([secret, ...encoded,",
    replacement: "const forms = new Set([secret,",
    tests: ["test/client/http/redaction.test.ts", "test/cli/keys.test.ts"],
  },
  {
    file: "src/connect/settings.ts",
    breaks: "Keys: only their user may read the saved keys",
    text: "configFileMode: 0o600",
    replacement: "configFileMode: 0o644",
    tests: ["test/connect/settings.test.ts"],
  },
  {
    file: "src/connect/settings.ts",
    breaks: "Keys: VIDGEN_API_KEY goes to the configured service only",
    text: "if (configured !== undefined && new URL(configured).origin === origin) return resolveApiKey(baseUrl, io);",
    replacement: "if (configured !== undefined) return resolveApiKey(baseUrl, io);",
    tests: ["test/connect/settings.test.ts", "test/cli/keys.test.ts"],
  },
  {
    file: "src/client/batch/costs.ts",
    breaks: "Money: a start that would exceed --max-credits is not sent",
    text: "const next = costs.expectedMax(request) ?? 0;",
    replacement: "const next = 0;",
    tests: ["test/client/batch"],
  },
  {
    file: "src/client/batch/costs.ts",
    breaks: "Money: a start that would exceed --max-cost is not sent",
    text: "roundUsd(usd + next) <= maxCost",
    replacement: "usd <= maxCost",
    tests: ["test/client/batch"],
  },
  {
    file: "src/server/store/rules/start.ts",
    breaks: "Credits: a start that the account cannot pay is refused",
    text: "if (remaining_credits < 0)",
    replacement: "if (remaining_credits < -cost)",
    tests: [rules],
  },
  {
    file: "src/server/store/rules/start.ts",
    breaks: "Credits: a repeated Idempotency-Key is charged once",
    text: "if (keyUse && idempotency) return repeat(keyUse, idempotency);",
    replacement: "",
    tests: [rules],
  },
  {
    file: "src/server/store/rules/start.ts",
    breaks: "Accounts: a disabled account starts nothing",
    text: 'if (account.disabled_at !== null) return { kind: "disabled" };',
    replacement: "",
    tests: [rules],
  },
  {
    file: "src/server/store/rules/finish.ts",
    breaks: "Credits: what was not generated is given back",
    text: "if (isRefunded) yield* refund(account, number, completed_at ?? context.now());",
    replacement: "",
    tests: [rules],
  },
  {
    file: "src/server/store/rules/finish.ts",
    breaks: "Credits: a generation ends once",
    text: "WHERE id = ? AND status = 'processing' AND",
    replacement: "WHERE id = ? AND",
    tests: [rules],
  },
  {
    file: "src/server/store/rules/finish.ts",
    breaks: "Credits: a cancel gives nothing back while the generation is being submitted",
    text: '"NOT is_submitting AND engine IS NOT DISTINCT FROM ?"',
    replacement: '"engine IS NOT DISTINCT FROM ?"',
    tests: [rules],
  },
  {
    file: "src/server/store/rules/credits.ts",
    breaks: "Credits: `accounts credits` adds once for each key",
    text: 'if (known) return { kind: "added"',
    replacement: 'if (known && amount === 0) return { kind: "added"',
    tests: [rules],
  },
  {
    file: "src/server/queue/make.ts",
    breaks: "Credits: what was being submitted when a process ended is not submitted again",
    text: 'if (checkpoint?.state === "submitting") {',
    replacement: 'if (checkpoint?.state === "submitting" && checkpoint.engine === "") {',
    tests: ["test/server/queue"],
  },
  {
    file: "src/server/api/own-generation.ts",
    breaks: "Accounts: a generation is shown to its own account only",
    text: "if (generation?.account !== named || !(isOwner || named === account))",
    replacement: "if (generation === undefined)",
    tests: ["test/server/api"],
  },
  {
    file: "src/server/api/fence.ts",
    breaks: "Accounts: a page of another web site starts nothing",
    text: "if (authority === undefined || !isOurs(withPort(authority, 80), incoming))",
    replacement: "if (authority === undefined)",
    tests: ["test/server/api/fence.test.ts"],
  },
];
