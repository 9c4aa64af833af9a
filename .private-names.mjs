// Names that only their author would search for, and the word to use instead. `npm run check` fails where `src/` declares one.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const words = {
  among: "claimFilter",
  anew: "again",
  asked: "request, or what it holds, such as conditions",
  Asked: "ParsedStart",
  beside: "a noun for what is mirrored",
  Choosing: "a noun, such as RowChoices",
  createBatches: "createGroupCommit",
  createJudge: "createPollState",
  createLackFinder: "createUnservableFinder",
  createRecent: "createLruMap or createBoundedMap",
  createTurns: "createMutex or createRoundRobin",
  Crowd: "tasks",
  dearest: "maxCost",
  Door: "ServiceConnection",
  doubted: "warned",
  economize: "optimizeForSize",
  Fall: "BalanceDrop",
  fewestMs: "minMs",
  findDoubts: "findWarnings",
  foreignFetch: "adaptFetch",
  forEverMs: "hundredYearsMs",
  fresh: "unfollowed",
  goOn: "until",
  goOut: "open",
  harmless: "swallowErrors",
  hereafter: "later",
  insist: "retryForever",
  isOtherMaking: "differsInPreview",
  keepsKey: "supportsIdempotency",
  keepsKeys: "supportsIdempotency",
  Lacking: "Missing",
  leave: "abandon",
  leaveOut: "recordFailure",
  look: "poll, or the verb for what is read",
  looks: "attempts",
  Made: "RenderResult",
  mostKept: "maxCached",
  namelessError: "missingVideoUrlError",
  onTrouble: "onOutage or reportProblem",
  OnTrouble: "ReportProblem",
  orAsItCame: "fallbackToRaw",
  owed: "probation",
  Pen: "renderer",
  steadyMs: "upForMs",
  stillToCome: "placeholderPrompt",
  tellsDoubts: "warnsAboutRequest",
  them: "a noun",
  told: "reported, or what it holds, such as costs",
  usualCost: "defaultCost",
  usualCredits: "defaultCredits",
  usualModel: "defaultModel",
  whyNotKept: "findWriteError",
  withFall: "withBalanceDrop",
  Words: "NameParts",
};

const declared = new RegExp(
  `^(?!\\s*(?://|/?\\*)).*\\b(?:const|let|function|type|interface|class) (${Object.keys(words).join("|")})\\b`,
);
for (const name of readdirSync("src", { recursive: true })) {
  const file = join("src", name);
  if (!/\.(tsx?|mjs)$/.test(file)) continue;
  for (const [index, line] of readFileSync(file, "utf8").split("\n").entries()) {
    const [, word] = declared.exec(line) ?? [];
    if (word === undefined) continue;
    process.stderr.write(`${file}:${index + 1} declares ${word}. Use another name: ${words[word]}.\n`);
    process.exitCode = 1;
  }
}
