import { prove } from "../faults/goal.ts";
import { chain } from "./chain.ts";
import { engines } from "./engines.ts";
import { enginesBroken } from "./engines-broken.ts";
import { enginesKilled } from "./engines-killed.ts";

for (const goal of [engines, enginesBroken, enginesKilled, chain]) prove(goal, 1);
