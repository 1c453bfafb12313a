import { runProducer } from "./producer-role.js";
import { readSurroundings } from "./surroundings.js";
import { runWorker } from "./worker-role.js";

/** Every process of the fleet is this program in one of its roles. */
const surroundings = readSurroundings();
await (surroundings.role === "worker" ? runWorker(surroundings) : runProducer(surroundings));
