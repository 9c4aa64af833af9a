import { again } from "./again.ts";
import { atOnce } from "./at-once.ts";
import { batchBudgets } from "./batch-budgets.ts";
import { batchBusy } from "./batch-busy.ts";
import { batchKilled, batchShards } from "./batch-killed.ts";
import { batchLong, batchPlanned } from "./batch-large.ts";
import { batchResharded } from "./batch-resharded.ts";
import { batchTorn } from "./batch-torn.ts";
import { secrecy } from "./canary.ts";
import { charges } from "./charges.ts";
import { containers } from "./containers.ts";
import { cut } from "./cut.ts";
import { downloads } from "./downloads.ts";
import { fullDisk } from "./full-disk.ts";
import { prove } from "./goal.ts";
import { keys } from "./keys.ts";
import { killed } from "./killed.ts";
import { malformed } from "./malformed.ts";
import { mcp } from "./mcp.ts";
import { onePlace } from "./one-place.ts";
import { ownWord } from "./own-word.ts";
import { sent } from "./sent.ts";
import { signalled } from "./signals.ts";
import { unsent } from "./unsent.ts";

// The same code as `npm run faults`, with smaller numbers.
const goals = [charges, sent, unsent, cut, killed, signalled, downloads, fullDisk, malformed, secrecy, keys];
const batch = [batchKilled, batchShards, batchLong, batchPlanned, batchBudgets, batchBusy, batchTorn, batchResharded];
for (const goal of [...goals, ...batch, again, atOnce, onePlace, containers, mcp, ownWord]) prove(goal, 0.03);
