import { prove } from "../faults/goal.ts";
import { engines } from "./engines.ts";
import { enginesDelay, enginesHeld } from "./engines-held.ts";
import { enginesKilled } from "./engines-killed.ts";

// The same code as `npm run soak`, with smaller numbers.
for (const goal of [engines, enginesKilled, enginesHeld, enginesDelay]) prove(goal, 0.03);
