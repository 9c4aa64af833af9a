import { prove } from "../faults/goal.ts";
import { enginesDelay, enginesHeld } from "./engines-held.ts";

for (const goal of [enginesHeld, enginesDelay]) prove(goal, 1);
