import { prove } from "../faults/goal.ts";
import { enginesDelay, enginesHeld } from "./engines-held.ts";
import { hostile } from "./hostile.ts";
import { idleEngine } from "./idle-engine.ts";

for (const goal of [enginesHeld, enginesDelay, idleEngine, hostile]) prove(goal, 1);
