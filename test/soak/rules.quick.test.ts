import { test } from "vitest";
import { prove } from "../faults/goal.ts";
import { hasCurl } from "../needs.ts";
import { forbiddenAddresses } from "./forbidden.ts";
import { interfaceRows } from "./interface.ts";
import { listening } from "./listen.ts";
import { origins } from "./origins.ts";
import { signatures } from "./signatures.ts";

// The same code as `npm run soak`, with smaller numbers where there are any.
for (const goal of [forbiddenAddresses, origins, signatures, listening]) prove(goal, 0.1);
if (hasCurl) prove(interfaceRows, 1);
else test.skip("the interface by curl alone: there is no curl on this machine");
