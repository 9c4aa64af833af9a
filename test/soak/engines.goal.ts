import { prove } from "../faults/goal.ts";
import { engines } from "./engines.ts";
import { enginesKilled } from "./engines-killed.ts";

for (const goal of [engines, enginesKilled]) prove(goal, 1);
