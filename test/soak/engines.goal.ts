import { prove } from "../faults/goal.ts";
import { chain } from "./chain.ts";
import { engines } from "./engines.ts";
import { enginesBroken } from "./engines-broken.ts";
import { enginesKilled } from "./engines-killed.ts";
import { enginesUnclear } from "./engines-unclear.ts";

for (const goal of [engines, enginesBroken, enginesKilled, chain, enginesUnclear]) prove(goal, 1);
