import { batchKilled, batchShards } from "./batch-killed.ts";
import { prove } from "./goal.ts";

// The goals of `vidgen batch` that kill it, in full.
for (const goal of [batchKilled, batchShards]) prove(goal, 1);
