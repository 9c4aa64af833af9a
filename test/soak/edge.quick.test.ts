import { prove } from "../faults/goal.ts";
import { requests } from "./requests.ts";

// The same code as `npm run soak`, with a smaller number; what is slow on purpose is not quick.
prove(requests, 0.1);
