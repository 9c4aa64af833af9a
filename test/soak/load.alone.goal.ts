import { prove } from "../faults/goal.ts";
import { busy } from "./busy.ts";
import { speed } from "./speed.ts";

// The goals that measure, in full: nothing else runs meanwhile.
for (const goal of [speed, busy]) prove(goal, 1);
