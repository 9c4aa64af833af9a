import { batchBudgets } from "./batch-budgets.ts";
import { batchBusy } from "./batch-busy.ts";
import { batchLong, batchPlanned } from "./batch-large.ts";
import { batchResharded } from "./batch-resharded.ts";
import { batchTorn } from "./batch-torn.ts";
import { prove } from "./goal.ts";

// The goals of `vidgen batch` about its plan, its rows, its budgets and its pace, in full.
for (const goal of [batchLong, batchPlanned, batchBudgets, batchBusy, batchTorn, batchResharded]) prove(goal, 1);
