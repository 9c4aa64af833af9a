import { createRequire } from "node:module";
import { createHash, randomBytes } from "node:crypto";
import process$1 from "node:process";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { basename, dirname, join, posix, relative, resolve } from "node:path";
import { constants } from "node:fs";
import { isIP } from "node:net";
import * as files from "node:fs/promises";
import { tmpdir } from "node:os";
// \0rolldown/runtime.js
var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __commonJSMin = (cb, mod) => () => (mod || (cb((mod = { exports: {} }).exports, mod, mod.exports), cb = null), mod.exports);
var __copyProps = (to, from, except, desc) => {
	if (from && typeof from === "object" || typeof from === "function") for (var keys = __getOwnPropNames(from), i = 0, n = keys.length, key; i < n; i++) {
		key = keys[i];
		if (!__hasOwnProp.call(to, key) && key !== except) __defProp(to, key, {
			get: ((k) => from[k]).bind(null, key),
			enumerable: !(desc = __getOwnPropDesc(from, key)) || desc.enumerable
		});
	}
	return to;
};
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(isNodeMode || !mod || !mod.__esModule || !__hasOwnProp.call(mod, "default") ? __defProp(target, "default", {
	value: mod,
	enumerable: true
}) : target, mod));
var __require = /* #__PURE__ */ (() => createRequire(import.meta.url))();
process$1.env.SEED;
function createRandom(seed) {
	let state = createHash("sha256").update(seed).digest().readUInt32LE();
	const next = () => {
		state = state + 1831565813 | 0;
		let mixed = Math.imul(state ^ state >>> 15, state | 1);
		mixed ^= mixed + Math.imul(mixed ^ mixed >>> 7, mixed | 61);
		return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32;
	};
	const between = (least, most) => least + Math.floor(next() * (most - least + 1));
	return {
		next,
		between,
		pick(items) {
			return items[between(0, items.length - 1)];
		},
		uuid() {
			const hex = Array.from({ length: 32 }, () => between(0, 15).toString(16)).join("");
			return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
		},
		fork: (name) => createRandom(`${seed}/${name}`)
	};
}
// test/simulation/answers.ts
const html = (status) => () => ({
	status,
	text: `<html><h1>${status}</h1></html>`
});
function started({ id, prompt, model, credits }, more = {}) {
	return JSON.stringify({
		success: true,
		data: {
			prompt,
			id,
			status: "processing",
			model
		},
		remaining_credits: credits,
		...more
	});
}
const json = (status, value, headers) => () => ({
	status,
	text: JSON.stringify(value),
	...headers ? { headers } : {}
});
/** The keys are the words of the story: "the service ...". */
const startBehaviours = {
	"accepts it": {
		means: "accepted",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 200,
			text: started(s)
		})
	},
	"accepts it, and the answer is cut after the id": {
		means: "accepted",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 200,
			text: started(s).slice(0, -30),
			isCut: true
		})
	},
	"accepts it with a NaN in the answer": {
		means: "accepted",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 201,
			text: started(s).replace(/}$/, ",\"eta\":NaN}")
		})
	},
	"accepts it with 429 and an id": {
		means: "accepted",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 429,
			text: started(s),
			headers: { "retry-after": "2" }
		})
	},
	"charges, and says success: false with an id": {
		means: "unknown",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 200,
			text: started(s, {
				success: false,
				error: "try later"
			})
		})
	},
	"charges, and answers 500 with an id": {
		means: "unknown",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 500,
			text: started(s)
		})
	},
	"charges, and answers 400 with an id": {
		means: "refused",
		charges: true,
		hasId: true,
		answer: (s) => ({
			status: 400,
			text: started(s, { error: "odd" })
		})
	},
	"charges, and replays the answer of another request": {
		means: "unknown",
		charges: true,
		answer: (s) => ({
			status: 200,
			text: started({
				...s,
				id: s.other ?? s.id
			})
		})
	},
	"charges, and resets the connection": {
		means: "unknown",
		charges: true,
		fails: "ECONNRESET"
	},
	"charges, and never answers": {
		means: "unknown",
		charges: true,
		fails: "silence"
	},
	"charges, and answers 502 in HTML": {
		means: "unknown",
		charges: true,
		answer: html(502)
	},
	"charges, and answers 503": {
		means: "unknown",
		charges: true,
		answer: json(503, {}, { "retry-after": "1" })
	},
	"charges, and answers 408": {
		means: "unknown",
		charges: true,
		answer: html(408)
	},
	"charges, and redirects": {
		means: "unknown",
		charges: true,
		answer: html(302)
	},
	"charges, and answers 200 in HTML": {
		means: "unknown",
		charges: true,
		answer: html(200)
	},
	"charges, and answers without an id": {
		means: "unknown",
		charges: true,
		answer: json(200, {
			success: true,
			data: { status: "processing" }
		})
	},
	"charges, and the answer is cut before the id": {
		means: "unknown",
		charges: true,
		answer: (s) => ({
			status: 200,
			text: started(s).slice(0, started(s).indexOf("\"id\":\"") + 12),
			isCut: true
		})
	},
	"resets the connection": {
		means: "unknown",
		charges: false,
		fails: "ECONNRESET"
	},
	"never answers": {
		means: "unknown",
		charges: false,
		fails: "silence"
	},
	"answers 502 in HTML": {
		means: "unknown",
		charges: false,
		answer: html(502)
	},
	"says slow down (429)": {
		means: "later",
		charges: false,
		answer: json(429, { error: "slow down" })
	},
	"says 429, in a minute": {
		means: "later",
		charges: false,
		answer: json(429, { error: "busy" }, { "retry-after": "60" })
	},
	"says too early (425)": {
		means: "later",
		charges: false,
		answer: json(425, {})
	},
	"refuses it (400)": {
		means: "refused",
		charges: false,
		answer: json(400, { error: { message: "no such model" } })
	},
	"refuses it (409)": {
		means: "refused",
		charges: false,
		answer: json(409, { error: "conflict" })
	},
	"refuses the key (401)": {
		means: "refused",
		charges: false,
		answer: ({ key }) => ({
			status: 401,
			text: JSON.stringify({ error: `bad key ${key}` })
		})
	},
	"has not enough credits (402)": {
		means: "refused",
		charges: false,
		answer: json(402, { error: "insufficient credits" })
	},
	"says success: false": {
		means: "refused",
		charges: false,
		answer: json(200, {
			success: false,
			error: "not today"
		})
	},
	"refuses the connection": {
		means: "unsent",
		charges: false,
		fails: "ECONNREFUSED"
	},
	"has no address": {
		means: "unsent",
		charges: false,
		fails: "ENOTFOUND"
	},
	"lets nobody connect": {
		means: "unsent",
		charges: false,
		fails: "UND_ERR_CONNECT_TIMEOUT"
	}
};
const statusText = ({ id, version }, status, hasUrl) => JSON.stringify({
	id,
	status,
	video_url: hasUrl ? urlOf(id, version) : null
});
function urlOf(id, version) {
	return `https://media.video.example/${id}/${version}.mp4`;
}
const statusBehaviours = {
	"answers each status request with the 404 of a gateway": html(404),
	"answers each status request with a 404 of its own": () => ({
		status: 404,
		text: "{\"error\":\"not found\"}"
	}),
	"answers each status request with 502": html(502),
	"answers each status request with 429": () => ({
		status: 429,
		text: "{}",
		headers: { "retry-after": "3" }
	}),
	"resets each status request": () => void 0,
	"never answers a status request": () => "silence",
	"answers each status request with HTML": html(200),
	"answers each status request with another id": () => ({
		status: 200,
		text: "{\"id\":\"other\",\"status\":\"completed\"}"
	}),
	"cuts each status": (g) => g ? {
		status: 200,
		text: statusText(g, "failed", false).slice(0, -9),
		isCut: true
	} : void 0,
	"calls each generation queued": (g) => g ? {
		status: 200,
		text: statusText(g, "queued", false)
	} : void 0,
	"completes without an address": (g) => g ? {
		status: 200,
		text: statusText(g, "completed", false)
	} : {
		status: 404,
		text: "{}"
	},
	"answers each status request with 403": () => ({
		status: 403,
		text: "{\"error\":\"no\"}"
	})
};
function statusAnswer(generated, key, now) {
	if (!(generated && generated.key === key && now < generated.lostAt) || now < generated.startedAt + generated.lagMs) return {
		status: 404,
		text: JSON.stringify({ error: "no such generation" })
	};
	const { ends, endsAt } = generated;
	if (now < endsAt) return {
		status: 200,
		text: statusText(generated, "processing", false)
	};
	if (ends === "failed") return {
		status: 200,
		text: JSON.stringify({
			id: generated.id,
			status: "failed",
			error: "too dark"
		})
	};
	return {
		status: 200,
		text: statusText(generated, "completed", true)
	};
}
// src/errors.ts
/** Every way a run can end: the name that `--json` shows as `error.code`, the exit code, and what it means. */
const exits = {
	ok: {
		exit: 0,
		meaning: "it worked"
	},
	rejected: {
		exit: 1,
		meaning: "the service refused the request or sent an unusable response"
	},
	bug: {
		exit: 1,
		meaning: "a bug in vidgen (6 while a start request is in flight)"
	},
	usage: {
		exit: 2,
		meaning: "bad flags or input; nothing was sent"
	},
	auth: {
		exit: 3,
		meaning: "no API key, or the service rejected it (401, 403)"
	},
	failed: {
		exit: 4,
		meaning: "the generation ended `failed`"
	},
	pending: {
		exit: 5,
		meaning: "timed out, or `status --exit-status`: the generation is still running"
	},
	unknown: {
		exit: 6,
		meaning: "the start request was sent, but got no usable response: it may have been charged"
	},
	credits: {
		exit: 7,
		meaning: "not enough credits (402, or the service says so)"
	},
	network: {
		exit: 8,
		meaning: "unreachable, rate limited or 5xx after all retries, and nothing was charged"
	},
	output: {
		exit: 9,
		meaning: "the video could not be saved, or the file already exists"
	},
	not_found: {
		exit: 10,
		meaning: "no such generation, or a lost one: the service no longer knows an id that it gave"
	},
	hung_up: {
		exit: 129,
		meaning: "SIGHUP; prints the id and the command to resume with"
	},
	interrupted: {
		exit: 130,
		meaning: "Ctrl-C; prints the id and the command to resume with"
	},
	terminated: {
		exit: 143,
		meaning: "SIGTERM; prints the id and the command to resume with"
	}
};
/** The one error that users see: `code` names it, `message` says what happened, `hint` what to do next. */
var VidgenError = class VidgenError extends Error {
	/** Node prints an error by this name; the minifier shortens that of the class itself. */
	static name = "VidgenError";
	code;
	hint;
	id;
	httpStatus;
	/** The start request that may have been charged, by its Idempotency-Key; set for nothing else. */
	attempt;
	constructor(code, message, details = {}) {
		super(message, details.cause === void 0 ? {} : { cause: details.cause });
		this.name = VidgenError.name;
		this.code = code;
		this.hint = details.hint;
		this.id = details.id;
		this.httpStatus = details.httpStatus;
		this.attempt = details.attempt;
	}
	/** The exit code of the process, from the table above. */
	get exit() {
		return exits[this.code].exit;
	}
	/** A copy in which the details fill in what was not set; a second hint goes below the first. */
	with(details) {
		return new VidgenError(this.code, this.message, {
			hint: [this.hint, details.hint].filter((hint) => hint !== void 0).join("\n") || void 0,
			id: this.id ?? details.id,
			httpStatus: this.httpStatus ?? details.httpStatus,
			attempt: this.attempt ?? details.attempt,
			cause: this.cause ?? details.cause
		});
	}
	/** A copy whose message names the generation, for a command that prints errors of several. */
	about(id) {
		if (this.message.includes(id)) return this;
		return new VidgenError(this.code, `${id}: ${this.message}`, {
			...this,
			cause: this.cause
		});
	}
};
/** A usage error: exit 2. */
function usage(message, hint) {
	return new VidgenError("usage", message, { hint });
}
/** The hint for a service that cannot be reached. */
const doctorHint = "Run `vidgen doctor` to diagnose the problem.";
/** Returns anything thrown as a `VidgenError`; any other error is a bug in vidgen (`bug`). */
function asVidgenError(error) {
	if (error instanceof VidgenError) return error;
	return new VidgenError("bug", `Internal error in vidgen: ${error instanceof Error ? error.message : String(error)}`, {
		hint: "Please report this bug; --verbose prints the stack trace.",
		cause: error
	});
}
/** The code of a failed system call or connection, such as "ECONNREFUSED": the first in the error's chain of causes. */
function systemCode(error) {
	for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
		if ("code" in at && typeof at.code === "string") return at.code;
		if (at instanceof AggregateError && at.errors.length > 0) return systemCode(at.errors[0]);
	}
}
const reasons = {
	ENOENT: "it does not exist",
	ENOTDIR: "part of the path is not a folder",
	EISDIR: "it is a folder",
	EACCES: "permission denied",
	EPERM: "permission denied",
	EROFS: "the file system is read-only",
	ENOSPC: "the disk is full",
	EDQUOT: "disk quota exceeded",
	ENAMETOOLONG: "the name is too long",
	ESPIPE: "it is a pipe, a socket or a device",
	ELOOP: "too many symbolic links",
	EMFILE: "too many open files"
};
/** Why a file or folder could not be used, in words; `overrides` has the words that fit the caller better. */
function systemReason(error, overrides = {}) {
	const code = systemCode(error) ?? "";
	return overrides[code] ?? reasons[code] ?? (error instanceof Error ? error.message : String(error));
}
/** The error of a command that has sent nothing: says so, except about usage, which does not concern money, and about an earlier attempt. */
function beforePaying(error) {
	const known = asVidgenError(error);
	const { code, message } = known;
	if (code === "usage" || code === "unknown" || code === "not_found") return known;
	return new VidgenError(code, `${/[.!?]$/.test(message) ? message : `${message}.`} Nothing was sent, nothing was charged.`, {
		...known,
		cause: known
	});
}
// test/simulation/machine.ts
const callKinds = [
	"any",
	"read",
	"write",
	"sync",
	"name",
	"look",
	"request",
	"answer"
];
const epoch = Date.UTC(2026, 5, 1);
function createProcess(options, schedule) {
	const { computer, random, callMs, instant } = options;
	const { disk } = computer;
	const first = new AbortController();
	const second = new AbortController();
	const pid = computer.nextPid++;
	const counts = /* @__PURE__ */ new Map();
	let mishaps = [...options.mishaps];
	const onEnds = [];
	let frozenUntil = 0;
	const isOver = () => process.endedAt !== void 0;
	const strike = (kind, isAfter) => {
		if (mishaps.length === 0) return;
		if (!isAfter) for (const each of [kind, "any"]) counts.set(each, (counts.get(each) ?? 0) + 1);
		const due = mishaps.filter((each) => each.isAfter === isAfter && (each.on === kind || each.on === "any") && counts.get(each.on) === each.nth);
		for (const mishap of due) {
			mishaps = mishaps.filter((each) => each !== mishap);
			options.onMishap(mishap);
			if (mishap.what === "killed") process.end(true);
			if (mishap.what === "frozen") frozenUntil = Math.max(frozenUntil, schedule.now() + mishap.ms);
			if (mishap.what === "Ctrl-C") process.after(mishap.ms, process.press);
		}
	};
	/** Adds a step of this process, which waits while it is frozen. */
	const add = (ms, work) => {
		const step = {
			at: schedule.now() + ms,
			order: random.next(),
			run() {
				if (isOver()) return;
				if (frozenUntil > schedule.now()) {
					step.at = frozenUntil;
					schedule.add(step);
					return;
				}
				work();
			}
		};
		return schedule.add(step);
	};
	const call = (kind, effect) => {
		if (isOver()) return never;
		strike(kind, false);
		if (isOver()) return never;
		const attempt = () => {
			try {
				return { value: effect() };
			} catch (error) {
				return { error };
			}
		};
		if (frozenUntil <= schedule.now() && random.next() < instant) {
			const done = attempt();
			strike(kind, true);
			if (isOver()) return never;
			if (frozenUntil <= schedule.now()) return "value" in done ? Promise.resolve(done.value) : Promise.reject(done.error);
			return new Promise((resolve, reject) => {
				add(0, () => "value" in done ? resolve(done.value) : reject(done.error));
			});
		}
		return new Promise((resolve, reject) => {
			add(callMs * 2 * random.next(), () => {
				const done = attempt();
				strike(kind, true);
				if (isOver()) return;
				const answer = () => "value" in done ? resolve(done.value) : reject(done.error);
				if (frozenUntil > schedule.now()) add(0, answer);
				else answer();
			});
		});
	};
	const now = () => schedule.now() + computer.boot * 1e6;
	const clock = {
		now,
		date: () => new Date(epoch + schedule.now() + computer.aheadMs),
		sleep: (ms, signal) => new Promise((resolve, reject) => {
			if (signal?.aborted) return reject(signal.reason);
			const step = add(ms, () => {
				signal?.removeEventListener("abort", onAbort);
				resolve();
			});
			const onAbort = () => {
				schedule.cancel(step);
				reject(signal?.reason);
			};
			signal?.addEventListener("abort", onAbort, { once: true });
		}),
		limit(ms, parent, reason) {
			const controller = new AbortController();
			let step = add(ms, () => fire());
			let isPending = true;
			const fire = () => {
				isPending = false;
				controller.abort(reason);
			};
			const onParent = () => controller.abort(parent.reason);
			parent.addEventListener("abort", onParent, { once: true });
			if (parent.aborted) onParent();
			const stop = () => {
				if (isPending) schedule.cancel(step);
				isPending = false;
			};
			return {
				signal: controller.signal,
				restart() {
					if (!isPending) return;
					schedule.cancel(step);
					step = add(ms, () => fire());
				},
				clear() {
					stop();
					parent.removeEventListener("abort", onParent);
				}
			};
		}
	};
	const process = {
		name: options.name,
		computer,
		id: {
			machine: `boot-${computer.name}-${computer.boot}`,
			namespace: options.namespace,
			pid,
			start: computer.hasStartTimes ? String(1e3 + Math.floor(schedule.now())) : "-"
		},
		startedAt: schedule.now(),
		endedAt: void 0,
		wasKilled: false,
		signal: first.signal,
		leave: second.signal,
		unsettled: /* @__PURE__ */ new Set(),
		random,
		machine: {
			...clock,
			random: random.next,
			uuid: () => uuidOf(random),
			disk: diskOf(disk, () => process, call),
			processes: {
				self: async () => process.id,
				async startOf(other) {
					return [...computer.processes].find(({ id, endedAt }) => id.pid === other && id.namespace === options.namespace && endedAt === void 0)?.id.start;
				}
			}
		},
		call,
		after: add,
		press() {
			if (!first.signal.aborted) return first.abort(new VidgenError("interrupted", "Interrupted."));
			if (second.signal.aborted) return;
			second.abort(new VidgenError("interrupted", "Interrupted."));
			add(3e3, options.onSecondPress);
		},
		end(wasKilled) {
			if (isOver()) return;
			process.endedAt = schedule.now();
			process.wasKilled = wasKilled;
			computer.processes.delete(process);
			for (const work of onEnds) work();
		},
		onEnd(work) {
			if (isOver()) work();
			else onEnds.push(work);
		}
	};
	computer.processes.add(process);
	return process;
}
/** As quick as it can be: each lease has two. */
function uuidOf(random) {
	const word = () => Math.floor(random.next() * 2 ** 32).toString(16).padStart(8, "0");
	const [a, b, c, d] = [
		word(),
		word(),
		word(),
		word()
	];
	return `${a}-${b.slice(0, 4)}-4${b.slice(5)}-a${c.slice(1, 4)}-${c.slice(4)}${d}`;
}
/** The exit code of a process that its second Ctrl-C ends: see `abort` in `src/cli/system.ts`. */
function codeOfLeaving(process) {
	return process.unsettled.size > 0 ? exits.unknown.exit : exits.interrupted.exit;
}
const never = new Promise(() => {});
function diskOf(disk, writer, call) {
	const open = async (path, flags) => {
		return fileOf(await call(flags === "r" ? "read" : "write", () => disk.open(path, flags)), {
			disk,
			writer,
			call
		});
	};
	return {
		constants: disk.constants,
		access: (path) => call("look", () => disk.access(path)),
		link: (from, to) => call("name", () => disk.link(from, to, writer())),
		lstat: (path) => call("look", () => disk.lstat(path)),
		stat: (path) => call("look", () => disk.stat(path)),
		mkdir: (path, options) => call("name", () => disk.mkdir(path, options)),
		readdir: (path) => call("look", () => disk.readdir(path)),
		realpath: (path) => call("look", () => disk.realpath(path)),
		rename: (from, to) => call("name", () => disk.rename(from, to, writer())),
		rm: (path, options) => call("name", () => disk.rm(path, options)),
		rmdir: (path) => call("name", () => disk.rmdir(path)),
		utimes: (path, _, mtime) => call("write", () => disk.utimes(path, _, mtime)),
		open,
		writeSync(fd, bytes, offset, length, position) {
			const who = writer();
			if (who.endedAt !== void 0) throw new Error("a dead process writes");
			return disk.writeTo(fd, Buffer.from(bytes.subarray(offset, offset + length)), position, who);
		}
	};
}
function fileOf(handle, { disk, writer, call }) {
	return {
		fd: handle.fd,
		stat: () => call("look", () => disk.fstat(handle)),
		read: (buffer, offset, length, position) => call("read", () => {
			const bytes = disk.read(handle, length, position);
			new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, offset);
			return {
				buffer,
				bytesRead: bytes.length
			};
		}),
		write: (bytes, offset = 0, length = bytes.length - offset, position = null) => {
			const part = Buffer.from(bytes.buffer, bytes.byteOffset + offset, length);
			return call("write", () => ({
				buffer: bytes,
				bytesWritten: disk.write(handle, part, position, writer())
			}));
		},
		truncate: (length = 0) => call("write", () => disk.truncate(handle, length, writer())),
		sync: () => call("sync", () => disk.sync(handle)),
		datasync: () => call("sync", () => disk.sync(handle)),
		close: () => call("look", () => disk.close(handle))
	};
}
/** What a client gets of its process. */
function ioOf(process, fetch) {
	return {
		...process.machine,
		fetch,
		unsettled: process.unsettled
	};
}
// test/mp4.ts
/** The smallest thing that has the boxes of an .mp4: `ftyp`, `moov`, `mdat`. */
function tinyMp4(content = "video") {
	const payload = new TextEncoder().encode(content);
	return new Uint8Array([
		...box("ftyp", /* @__PURE__ */ new Uint8Array(8)),
		...box("moov", /* @__PURE__ */ new Uint8Array(4)),
		...box("mdat", payload)
	]);
}
function box(type, payload) {
	const size = /* @__PURE__ */ new DataView(/* @__PURE__ */ new ArrayBuffer(4));
	size.setUint32(0, payload.length + 8);
	return [
		...new Uint8Array(size.buffer),
		...new TextEncoder().encode(type),
		...payload
	];
}
// test/simulation/video.ts
/** All videos have the same size: by that alone nobody can tell them apart. */
function videoOf(id, version) {
	return Buffer.from(tinyMp4(`${id} ${version}`.padEnd(120, ".")));
}
/** The generation whose whole video these bytes are. */
function idOfVideo(bytes) {
	const [id = "", version = ""] = bytes.subarray(36).toString("latin1").replace(/\.+$/, "").split(" ");
	return /^\d$/.test(version) && videoOf(id, Number(version)).equals(bytes) ? id : void 0;
}
// test/simulation/media.ts
function inTwo(bytes) {
	const half = Math.ceil(bytes.length / 2);
	return [bytes.subarray(0, half), bytes.subarray(half)];
}
/** As RFC 9110 has it: a range when If-Range names the video as it is now, else the whole. */
const fine = ({ id, version }, { range, ifRange }) => {
	const video = videoOf(id, version);
	const etag = etagOf(id, version);
	if (range === void 0 || ifRange !== etag) return {
		status: 200,
		headers: {
			etag,
			"content-length": String(video.length)
		},
		chunks: inTwo(video),
		ending: "end"
	};
	if (range >= video.length) return plain(416, "", { "content-range": `bytes */${video.length}` });
	return {
		status: 206,
		headers: {
			etag,
			"content-range": `bytes ${range}-${video.length - 1}/${video.length}`
		},
		chunks: inTwo(video.subarray(range)),
		ending: "end"
	};
};
function plain(status, text, headers = {}) {
	return {
		status,
		headers,
		chunks: text === "" ? [] : [Buffer.from(text)],
		ending: "end"
	};
}
function etagOf(id, version) {
	return `"${id.slice(0, 8)}-${version}"`;
}
/** The first of the chunks, and no more. */
function half(answer, ending) {
	return {
		...answer,
		chunks: answer.chunks.slice(0, 1),
		ending
	};
}
function without(answer, header) {
	const { [header]: _, ...headers } = answer.headers;
	return {
		...answer,
		headers
	};
}
/** What the media address does to one request: "the download ...". */
const mediaBehaviours = {
	"is cut half-way": (g, asked) => half(fine(g, asked), "cut"),
	"stalls half-way": (g, asked) => half(fine(g, asked), "stall"),
	"is cut, without a length or an ETag": (g, asked) => half(without(without(fine(g, asked), "content-length"), "etag"), "end"),
	"has no ETag": (g, asked) => without(fine(g, {
		...asked,
		range: void 0
	}), "etag"),
	"has the key in its ETag, and is cut": (g, asked) => {
		const answer = half(fine(g, asked), "cut");
		return {
			...answer,
			headers: {
				...answer.headers,
				etag: `"${g.key}"`
			}
		};
	},
	"is another version from now on": (g, asked) => {
		g.version++;
		return fine(g, asked);
	},
	"brings the rest of another version": (g, asked) => {
		const other = videoOf(g.id, g.version + 1);
		const at = asked.range ?? 0;
		const headers = {
			"content-range": `bytes ${at}-${other.length - 1}/${other.length}`,
			etag: "\"x\""
		};
		return asked.range === void 0 ? fine(g, asked) : {
			status: 206,
			headers,
			chunks: [other.subarray(at)],
			ending: "end"
		};
	},
	"is a page of HTML": () => plain(200, "<html>please wait</html>"),
	"is empty": () => plain(200, ""),
	"has expired (403)": () => plain(403, "<html>expired</html>"),
	"is not there (404)": () => plain(404, "<html>no</html>"),
	"is put off (503)": () => plain(503, "")
};
function mediaAnswer(generated, asked, isHealthy) {
	if (generated === void 0) return plain(404, "{}");
	const name = isHealthy ? void 0 : generated.media[generated.downloads++];
	return ((name === void 0 ? void 0 : mediaBehaviours[name]) ?? fine)(generated, asked);
}
// node_modules/commander/lib/error.js
var require_error = /* @__PURE__ */ __commonJSMin(((exports) => {
	/**
	* CommanderError class
	*/
	var CommanderError = class extends Error {
		/**
		* Constructs the CommanderError class
		* @param {number} exitCode suggested exit code which could be used with process.exit
		* @param {string} code an id string representing the error
		* @param {string} message human-readable description of the error
		*/
		constructor(exitCode, code, message) {
			super(message);
			Error.captureStackTrace(this, this.constructor);
			this.name = this.constructor.name;
			this.code = code;
			this.exitCode = exitCode;
			this.nestedError = void 0;
		}
	};
	/**
	* InvalidArgumentError class
	*/
	var InvalidArgumentError = class extends CommanderError {
		/**
		* Constructs the InvalidArgumentError class
		* @param {string} [message] explanation of why argument is invalid
		*/
		constructor(message) {
			super(1, "commander.invalidArgument", message);
			Error.captureStackTrace(this, this.constructor);
			this.name = this.constructor.name;
		}
	};
	exports.CommanderError = CommanderError;
	exports.InvalidArgumentError = InvalidArgumentError;
}));
// node_modules/commander/lib/argument.js
var require_argument = /* @__PURE__ */ __commonJSMin(((exports) => {
	const { InvalidArgumentError } = require_error();
	var Argument = class {
		/**
		* Initialize a new command argument with the given name and description.
		* The default is that the argument is required, and you can explicitly
		* indicate this with <> around the name. Put [] around the name for an optional argument.
		*
		* @param {string} name
		* @param {string} [description]
		*/
		constructor(name, description) {
			this.description = description || "";
			this.variadic = false;
			this.parseArg = void 0;
			this.defaultValue = void 0;
			this.defaultValueDescription = void 0;
			this.argChoices = void 0;
			switch (name[0]) {
				case "<":
					this.required = true;
					this._name = name.slice(1, -1);
					break;
				case "[":
					this.required = false;
					this._name = name.slice(1, -1);
					break;
				default:
					this.required = true;
					this._name = name;
			}
			if (this._name.endsWith("...")) {
				this.variadic = true;
				this._name = this._name.slice(0, -3);
			}
		}
		/**
		* Return argument name.
		*
		* @return {string}
		*/
		name() {
			return this._name;
		}
		/**
		* @package
		*/
		_collectValue(value, previous) {
			if (previous === this.defaultValue || !Array.isArray(previous)) return [value];
			previous.push(value);
			return previous;
		}
		/**
		* Set the default value, and optionally supply the description to be displayed in the help.
		*
		* @param {*} value
		* @param {string} [description]
		* @return {Argument}
		*/
		default(value, description) {
			this.defaultValue = value;
			this.defaultValueDescription = description;
			return this;
		}
		/**
		* Set the custom handler for processing CLI command arguments into argument values.
		*
		* @param {Function} [fn]
		* @return {Argument}
		*/
		argParser(fn) {
			this.parseArg = fn;
			return this;
		}
		/**
		* Only allow argument value to be one of choices.
		*
		* @param {string[]} values
		* @return {Argument}
		*/
		choices(values) {
			this.argChoices = values.slice();
			this.parseArg = (arg, previous) => {
				if (!this.argChoices.includes(arg)) throw new InvalidArgumentError(`Allowed choices are ${this.argChoices.join(", ")}.`);
				if (this.variadic) return this._collectValue(arg, previous);
				return arg;
			};
			return this;
		}
		/**
		* Make argument required.
		*
		* @returns {Argument}
		*/
		argRequired() {
			this.required = true;
			return this;
		}
		/**
		* Make argument optional.
		*
		* @returns {Argument}
		*/
		argOptional() {
			this.required = false;
			return this;
		}
	};
	/**
	* Takes an argument and returns its human readable equivalent for help usage.
	*
	* @param {Argument} arg
	* @return {string}
	* @private
	*/
	function humanReadableArgName(arg) {
		const nameOutput = arg.name() + (arg.variadic === true ? "..." : "");
		return arg.required ? "<" + nameOutput + ">" : "[" + nameOutput + "]";
	}
	exports.Argument = Argument;
	exports.humanReadableArgName = humanReadableArgName;
}));
// node_modules/commander/lib/help.js
var require_help = /* @__PURE__ */ __commonJSMin(((exports) => {
	const { humanReadableArgName } = require_argument();
	/**
	* TypeScript import types for JSDoc, used by Visual Studio Code IntelliSense and `npm run typescript-checkJS`
	* https://www.typescriptlang.org/docs/handbook/jsdoc-supported-types.html#import-types
	* @typedef { import("./argument.js").Argument } Argument
	* @typedef { import("./command.js").Command } Command
	* @typedef { import("./option.js").Option } Option
	*/
	var Help = class {
		constructor() {
			this.helpWidth = void 0;
			this.minWidthToWrap = 40;
			this.sortSubcommands = false;
			this.sortOptions = false;
			this.showGlobalOptions = false;
		}
		/**
		* prepareContext is called by Commander after applying overrides from `Command.configureHelp()`
		* and just before calling `formatHelp()`.
		*
		* Commander just uses the helpWidth and the rest is provided for optional use by more complex subclasses.
		*
		* @param {{ error?: boolean, helpWidth?: number, outputHasColors?: boolean }} contextOptions
		*/
		prepareContext(contextOptions) {
			this.helpWidth = this.helpWidth ?? contextOptions.helpWidth ?? 80;
		}
		/**
		* Get an array of the visible subcommands. Includes a placeholder for the implicit help command, if there is one.
		*
		* @param {Command} cmd
		* @returns {Command[]}
		*/
		visibleCommands(cmd) {
			const visibleCommands = cmd.commands.filter((cmd) => !cmd._hidden);
			const helpCommand = cmd._getHelpCommand();
			if (helpCommand && !helpCommand._hidden) visibleCommands.push(helpCommand);
			if (this.sortSubcommands) visibleCommands.sort((a, b) => {
				return a.name().localeCompare(b.name());
			});
			return visibleCommands;
		}
		/**
		* Compare options for sort.
		*
		* @param {Option} a
		* @param {Option} b
		* @returns {number}
		*/
		compareOptions(a, b) {
			const getSortKey = (option) => {
				return option.short ? option.short.replace(/^-/, "") : option.long.replace(/^--/, "");
			};
			return getSortKey(a).localeCompare(getSortKey(b));
		}
		/**
		* Get an array of the visible options. Includes a placeholder for the implicit help option, if there is one.
		*
		* @param {Command} cmd
		* @returns {Option[]}
		*/
		visibleOptions(cmd) {
			const visibleOptions = cmd.options.filter((option) => !option.hidden);
			const helpOption = cmd._getHelpOption();
			if (helpOption && !helpOption.hidden) {
				const removeShort = helpOption.short && cmd._findOption(helpOption.short);
				const removeLong = helpOption.long && cmd._findOption(helpOption.long);
				if (!removeShort && !removeLong) visibleOptions.push(helpOption);
				else if (helpOption.long && !removeLong) visibleOptions.push(cmd.createOption(helpOption.long, helpOption.description));
				else if (helpOption.short && !removeShort) visibleOptions.push(cmd.createOption(helpOption.short, helpOption.description));
			}
			if (this.sortOptions) visibleOptions.sort(this.compareOptions);
			return visibleOptions;
		}
		/**
		* Get an array of the visible global options. (Not including help.)
		*
		* @param {Command} cmd
		* @returns {Option[]}
		*/
		visibleGlobalOptions(cmd) {
			if (!this.showGlobalOptions) return [];
			const globalOptions = [];
			for (let ancestorCmd = cmd.parent; ancestorCmd; ancestorCmd = ancestorCmd.parent) {
				const visibleOptions = ancestorCmd.options.filter((option) => !option.hidden);
				globalOptions.push(...visibleOptions);
			}
			if (this.sortOptions) globalOptions.sort(this.compareOptions);
			return globalOptions;
		}
		/**
		* Get an array of the arguments if any have a description.
		*
		* @param {Command} cmd
		* @returns {Argument[]}
		*/
		visibleArguments(cmd) {
			if (cmd._argsDescription) cmd.registeredArguments.forEach((argument) => {
				argument.description = argument.description || cmd._argsDescription[argument.name()] || "";
			});
			if (cmd.registeredArguments.find((argument) => argument.description)) return cmd.registeredArguments;
			return [];
		}
		/**
		* Get the command term to show in the list of subcommands.
		*
		* @param {Command} cmd
		* @returns {string}
		*/
		subcommandTerm(cmd) {
			const args = cmd.registeredArguments.map((arg) => humanReadableArgName(arg)).join(" ");
			return cmd._name + (cmd._aliases[0] ? "|" + cmd._aliases[0] : "") + (cmd.options.length ? " [options]" : "") + (args ? " " + args : "");
		}
		/**
		* Get the option term to show in the list of options.
		*
		* @param {Option} option
		* @returns {string}
		*/
		optionTerm(option) {
			return option.flags;
		}
		/**
		* Get the argument term to show in the list of arguments.
		*
		* @param {Argument} argument
		* @returns {string}
		*/
		argumentTerm(argument) {
			return argument.name();
		}
		/**
		* Get the longest command term length.
		*
		* @param {Command} cmd
		* @param {Help} helper
		* @returns {number}
		*/
		longestSubcommandTermLength(cmd, helper) {
			return helper.visibleCommands(cmd).reduce((max, command) => {
				return Math.max(max, this.displayWidth(helper.styleSubcommandTerm(helper.subcommandTerm(command))));
			}, 0);
		}
		/**
		* Get the longest option term length.
		*
		* @param {Command} cmd
		* @param {Help} helper
		* @returns {number}
		*/
		longestOptionTermLength(cmd, helper) {
			return helper.visibleOptions(cmd).reduce((max, option) => {
				return Math.max(max, this.displayWidth(helper.styleOptionTerm(helper.optionTerm(option))));
			}, 0);
		}
		/**
		* Get the longest global option term length.
		*
		* @param {Command} cmd
		* @param {Help} helper
		* @returns {number}
		*/
		longestGlobalOptionTermLength(cmd, helper) {
			return helper.visibleGlobalOptions(cmd).reduce((max, option) => {
				return Math.max(max, this.displayWidth(helper.styleOptionTerm(helper.optionTerm(option))));
			}, 0);
		}
		/**
		* Get the longest argument term length.
		*
		* @param {Command} cmd
		* @param {Help} helper
		* @returns {number}
		*/
		longestArgumentTermLength(cmd, helper) {
			return helper.visibleArguments(cmd).reduce((max, argument) => {
				return Math.max(max, this.displayWidth(helper.styleArgumentTerm(helper.argumentTerm(argument))));
			}, 0);
		}
		/**
		* Get the command usage to be displayed at the top of the built-in help.
		*
		* @param {Command} cmd
		* @returns {string}
		*/
		commandUsage(cmd) {
			let cmdName = cmd._name;
			if (cmd._aliases[0]) cmdName = cmdName + "|" + cmd._aliases[0];
			let ancestorCmdNames = "";
			for (let ancestorCmd = cmd.parent; ancestorCmd; ancestorCmd = ancestorCmd.parent) ancestorCmdNames = ancestorCmd.name() + " " + ancestorCmdNames;
			return ancestorCmdNames + cmdName + " " + cmd.usage();
		}
		/**
		* Get the description for the command.
		*
		* @param {Command} cmd
		* @returns {string}
		*/
		commandDescription(cmd) {
			return cmd.description();
		}
		/**
		* Get the subcommand summary to show in the list of subcommands.
		* (Fallback to description for backwards compatibility.)
		*
		* @param {Command} cmd
		* @returns {string}
		*/
		subcommandDescription(cmd) {
			return cmd.summary() || cmd.description();
		}
		/**
		* Get the option description to show in the list of options.
		*
		* @param {Option} option
		* @return {string}
		*/
		optionDescription(option) {
			const extraInfo = [];
			if (option.argChoices) extraInfo.push(`choices: ${option.argChoices.map((choice) => JSON.stringify(choice)).join(", ")}`);
			if (option.defaultValue !== void 0) {
				if (option.required || option.optional || option.isBoolean() && typeof option.defaultValue === "boolean") extraInfo.push(`default: ${option.defaultValueDescription || JSON.stringify(option.defaultValue)}`);
			}
			if (option.presetArg !== void 0 && option.optional) extraInfo.push(`preset: ${JSON.stringify(option.presetArg)}`);
			if (option.envVar !== void 0) extraInfo.push(`env: ${option.envVar}`);
			if (extraInfo.length > 0) {
				const extraDescription = `(${extraInfo.join(", ")})`;
				if (option.description) return `${option.description} ${extraDescription}`;
				return extraDescription;
			}
			return option.description;
		}
		/**
		* Get the argument description to show in the list of arguments.
		*
		* @param {Argument} argument
		* @return {string}
		*/
		argumentDescription(argument) {
			const extraInfo = [];
			if (argument.argChoices) extraInfo.push(`choices: ${argument.argChoices.map((choice) => JSON.stringify(choice)).join(", ")}`);
			if (argument.defaultValue !== void 0) extraInfo.push(`default: ${argument.defaultValueDescription || JSON.stringify(argument.defaultValue)}`);
			if (extraInfo.length > 0) {
				const extraDescription = `(${extraInfo.join(", ")})`;
				if (argument.description) return `${argument.description} ${extraDescription}`;
				return extraDescription;
			}
			return argument.description;
		}
		/**
		* Format a list of items, given a heading and an array of formatted items.
		*
		* @param {string} heading
		* @param {string[]} items
		* @param {Help} helper
		* @returns string[]
		*/
		formatItemList(heading, items, helper) {
			if (items.length === 0) return [];
			return [
				helper.styleTitle(heading),
				...items,
				""
			];
		}
		/**
		* Group items by their help group heading.
		*
		* @param {Command[] | Option[]} unsortedItems
		* @param {Command[] | Option[]} visibleItems
		* @param {Function} getGroup
		* @returns {Map<string, Command[] | Option[]>}
		*/
		groupItems(unsortedItems, visibleItems, getGroup) {
			const result = /* @__PURE__ */ new Map();
			unsortedItems.forEach((item) => {
				const group = getGroup(item);
				if (!result.has(group)) result.set(group, []);
			});
			visibleItems.forEach((item) => {
				const group = getGroup(item);
				if (!result.has(group)) result.set(group, []);
				result.get(group).push(item);
			});
			return result;
		}
		/**
		* Generate the built-in help text.
		*
		* @param {Command} cmd
		* @param {Help} helper
		* @returns {string}
		*/
		formatHelp(cmd, helper) {
			const termWidth = helper.padWidth(cmd, helper);
			const helpWidth = helper.helpWidth ?? 80;
			function callFormatItem(term, description) {
				return helper.formatItem(term, termWidth, description, helper);
			}
			let output = [`${helper.styleTitle("Usage:")} ${helper.styleUsage(helper.commandUsage(cmd))}`, ""];
			const commandDescription = helper.commandDescription(cmd);
			if (commandDescription.length > 0) output = output.concat([helper.boxWrap(helper.styleCommandDescription(commandDescription), helpWidth), ""]);
			const argumentList = helper.visibleArguments(cmd).map((argument) => {
				return callFormatItem(helper.styleArgumentTerm(helper.argumentTerm(argument)), helper.styleArgumentDescription(helper.argumentDescription(argument)));
			});
			output = output.concat(this.formatItemList("Arguments:", argumentList, helper));
			this.groupItems(cmd.options, helper.visibleOptions(cmd), (option) => option.helpGroupHeading ?? "Options:").forEach((options, group) => {
				const optionList = options.map((option) => {
					return callFormatItem(helper.styleOptionTerm(helper.optionTerm(option)), helper.styleOptionDescription(helper.optionDescription(option)));
				});
				output = output.concat(this.formatItemList(group, optionList, helper));
			});
			if (helper.showGlobalOptions) {
				const globalOptionList = helper.visibleGlobalOptions(cmd).map((option) => {
					return callFormatItem(helper.styleOptionTerm(helper.optionTerm(option)), helper.styleOptionDescription(helper.optionDescription(option)));
				});
				output = output.concat(this.formatItemList("Global Options:", globalOptionList, helper));
			}
			this.groupItems(cmd.commands, helper.visibleCommands(cmd), (sub) => sub.helpGroup() || "Commands:").forEach((commands, group) => {
				const commandList = commands.map((sub) => {
					return callFormatItem(helper.styleSubcommandTerm(helper.subcommandTerm(sub)), helper.styleSubcommandDescription(helper.subcommandDescription(sub)));
				});
				output = output.concat(this.formatItemList(group, commandList, helper));
			});
			return output.join("\n");
		}
		/**
		* Return display width of string, ignoring ANSI escape sequences. Used in padding and wrapping calculations.
		*
		* @param {string} str
		* @returns {number}
		*/
		displayWidth(str) {
			return stripColor(str).length;
		}
		/**
		* Style the title for displaying in the help. Called with 'Usage:', 'Options:', etc.
		*
		* @param {string} str
		* @returns {string}
		*/
		styleTitle(str) {
			return str;
		}
		styleUsage(str) {
			return str.split(" ").map((word) => {
				if (word === "[options]") return this.styleOptionText(word);
				if (word === "[command]") return this.styleSubcommandText(word);
				if (word[0] === "[" || word[0] === "<") return this.styleArgumentText(word);
				return this.styleCommandText(word);
			}).join(" ");
		}
		styleCommandDescription(str) {
			return this.styleDescriptionText(str);
		}
		styleOptionDescription(str) {
			return this.styleDescriptionText(str);
		}
		styleSubcommandDescription(str) {
			return this.styleDescriptionText(str);
		}
		styleArgumentDescription(str) {
			return this.styleDescriptionText(str);
		}
		styleDescriptionText(str) {
			return str;
		}
		styleOptionTerm(str) {
			return this.styleOptionText(str);
		}
		styleSubcommandTerm(str) {
			return str.split(" ").map((word) => {
				if (word === "[options]") return this.styleOptionText(word);
				if (word[0] === "[" || word[0] === "<") return this.styleArgumentText(word);
				return this.styleSubcommandText(word);
			}).join(" ");
		}
		styleArgumentTerm(str) {
			return this.styleArgumentText(str);
		}
		styleOptionText(str) {
			return str;
		}
		styleArgumentText(str) {
			return str;
		}
		styleSubcommandText(str) {
			return str;
		}
		styleCommandText(str) {
			return str;
		}
		/**
		* Calculate the pad width from the maximum term length.
		*
		* @param {Command} cmd
		* @param {Help} helper
		* @returns {number}
		*/
		padWidth(cmd, helper) {
			return Math.max(helper.longestOptionTermLength(cmd, helper), helper.longestGlobalOptionTermLength(cmd, helper), helper.longestSubcommandTermLength(cmd, helper), helper.longestArgumentTermLength(cmd, helper));
		}
		/**
		* Detect manually wrapped and indented strings by checking for line break followed by whitespace.
		*
		* @param {string} str
		* @returns {boolean}
		*/
		preformatted(str) {
			return /\n[^\S\r\n]/.test(str);
		}
		/**
		* Format the "item", which consists of a term and description. Pad the term and wrap the description, indenting the following lines.
		*
		* So "TTT", 5, "DDD DDDD DD DDD" might be formatted for this.helpWidth=17 like so:
		*   TTT  DDD DDDD
		*        DD DDD
		*
		* @param {string} term
		* @param {number} termWidth
		* @param {string} description
		* @param {Help} helper
		* @returns {string}
		*/
		formatItem(term, termWidth, description, helper) {
			const itemIndent = 2;
			const itemIndentStr = " ".repeat(itemIndent);
			if (!description) return itemIndentStr + term;
			const paddedTerm = term.padEnd(termWidth + term.length - helper.displayWidth(term));
			const spacerWidth = 2;
			const remainingWidth = (this.helpWidth ?? 80) - termWidth - spacerWidth - itemIndent;
			let formattedDescription;
			if (remainingWidth < this.minWidthToWrap || helper.preformatted(description)) formattedDescription = description;
			else formattedDescription = helper.boxWrap(description, remainingWidth).replace(/\n/g, "\n" + " ".repeat(termWidth + spacerWidth));
			return itemIndentStr + paddedTerm + " ".repeat(spacerWidth) + formattedDescription.replace(/\n/g, `\n${itemIndentStr}`);
		}
		/**
		* Wrap a string at whitespace, preserving existing line breaks.
		* Wrapping is skipped if the width is less than `minWidthToWrap`.
		*
		* @param {string} str
		* @param {number} width
		* @returns {string}
		*/
		boxWrap(str, width) {
			if (width < this.minWidthToWrap) return str;
			const rawLines = str.split(/\r\n|\n/);
			const chunkPattern = /[\s]*[^\s]+/g;
			const wrappedLines = [];
			rawLines.forEach((line) => {
				const chunks = line.match(chunkPattern);
				if (chunks === null) {
					wrappedLines.push("");
					return;
				}
				let sumChunks = [chunks.shift()];
				let sumWidth = this.displayWidth(sumChunks[0]);
				chunks.forEach((chunk) => {
					const visibleWidth = this.displayWidth(chunk);
					if (sumWidth + visibleWidth <= width) {
						sumChunks.push(chunk);
						sumWidth += visibleWidth;
						return;
					}
					wrappedLines.push(sumChunks.join(""));
					const nextChunk = chunk.trimStart();
					sumChunks = [nextChunk];
					sumWidth = this.displayWidth(nextChunk);
				});
				wrappedLines.push(sumChunks.join(""));
			});
			return wrappedLines.join("\n");
		}
	};
	/**
	* Strip style ANSI escape sequences from the string. In particular, SGR (Select Graphic Rendition) codes.
	*
	* @param {string} str
	* @returns {string}
	* @package
	*/
	function stripColor(str) {
		return str.replace(/\x1b\[\d*(;\d*)*m/g, "");
	}
	exports.Help = Help;
	exports.stripColor = stripColor;
}));
// node_modules/commander/lib/option.js
var require_option = /* @__PURE__ */ __commonJSMin(((exports) => {
	const { InvalidArgumentError } = require_error();
	var Option = class {
		/**
		* Initialize a new `Option` with the given `flags` and `description`.
		*
		* @param {string} flags
		* @param {string} [description]
		*/
		constructor(flags, description) {
			this.flags = flags;
			this.description = description || "";
			this.required = flags.includes("<");
			this.optional = flags.includes("[");
			this.variadic = /\w\.\.\.[>\]]$/.test(flags);
			this.mandatory = false;
			const optionFlags = splitOptionFlags(flags);
			this.short = optionFlags.shortFlag;
			this.long = optionFlags.longFlag;
			this.negate = false;
			if (this.long) this.negate = this.long.startsWith("--no-");
			this.defaultValue = void 0;
			this.defaultValueDescription = void 0;
			this.presetArg = void 0;
			this.envVar = void 0;
			this.parseArg = void 0;
			this.hidden = false;
			this.argChoices = void 0;
			this.conflictsWith = [];
			this.implied = void 0;
			this.helpGroupHeading = void 0;
		}
		/**
		* Set the default value, and optionally supply the description to be displayed in the help.
		*
		* @param {*} value
		* @param {string} [description]
		* @return {Option}
		*/
		default(value, description) {
			this.defaultValue = value;
			this.defaultValueDescription = description;
			return this;
		}
		/**
		* Preset to use when option used without option-argument, especially optional but also boolean and negated.
		* The custom processing (parseArg) is called.
		*
		* @example
		* new Option('--color').default('GREYSCALE').preset('RGB');
		* new Option('--donate [amount]').preset('20').argParser(parseFloat);
		*
		* @param {*} arg
		* @return {Option}
		*/
		preset(arg) {
			this.presetArg = arg;
			return this;
		}
		/**
		* Add option name(s) that conflict with this option.
		* An error will be displayed if conflicting options are found during parsing.
		*
		* @example
		* new Option('--rgb').conflicts('cmyk');
		* new Option('--js').conflicts(['ts', 'jsx']);
		*
		* @param {(string | string[])} names
		* @return {Option}
		*/
		conflicts(names) {
			this.conflictsWith = this.conflictsWith.concat(names);
			return this;
		}
		/**
		* Specify implied option values for when this option is set and the implied options are not.
		*
		* The custom processing (parseArg) is not called on the implied values.
		*
		* @example
		* program
		*   .addOption(new Option('--log', 'write logging information to file'))
		*   .addOption(new Option('--trace', 'log extra details').implies({ log: 'trace.txt' }));
		*
		* @param {object} impliedOptionValues
		* @return {Option}
		*/
		implies(impliedOptionValues) {
			let newImplied = impliedOptionValues;
			if (typeof impliedOptionValues === "string") newImplied = { [impliedOptionValues]: true };
			this.implied = Object.assign(this.implied || {}, newImplied);
			return this;
		}
		/**
		* Set environment variable to check for option value.
		*
		* An environment variable is only used if when processed the current option value is
		* undefined, or the source of the current value is 'default' or 'config' or 'env'.
		*
		* @param {string} name
		* @return {Option}
		*/
		env(name) {
			this.envVar = name;
			return this;
		}
		/**
		* Set the custom handler for processing CLI option arguments into option values.
		*
		* @param {Function} [fn]
		* @return {Option}
		*/
		argParser(fn) {
			this.parseArg = fn;
			return this;
		}
		/**
		* Whether the option is mandatory and must have a value after parsing.
		*
		* @param {boolean} [mandatory=true]
		* @return {Option}
		*/
		makeOptionMandatory(mandatory = true) {
			this.mandatory = !!mandatory;
			return this;
		}
		/**
		* Hide option in help.
		*
		* @param {boolean} [hide=true]
		* @return {Option}
		*/
		hideHelp(hide = true) {
			this.hidden = !!hide;
			return this;
		}
		/**
		* @package
		*/
		_collectValue(value, previous) {
			if (previous === this.defaultValue || !Array.isArray(previous)) return [value];
			previous.push(value);
			return previous;
		}
		/**
		* Only allow option value to be one of choices.
		*
		* @param {string[]} values
		* @return {Option}
		*/
		choices(values) {
			this.argChoices = values.slice();
			this.parseArg = (arg, previous) => {
				if (!this.argChoices.includes(arg)) throw new InvalidArgumentError(`Allowed choices are ${this.argChoices.join(", ")}.`);
				if (this.variadic) return this._collectValue(arg, previous);
				return arg;
			};
			return this;
		}
		/**
		* Return option name.
		*
		* @return {string}
		*/
		name() {
			if (this.long) return this.long.replace(/^--/, "");
			return this.short.replace(/^-/, "");
		}
		/**
		* Return option name, in a camelcase format that can be used
		* as an object attribute key.
		*
		* @return {string}
		*/
		attributeName() {
			if (this.negate) return camelcase(this.name().replace(/^no-/, ""));
			return camelcase(this.name());
		}
		/**
		* Set the help group heading.
		*
		* @param {string} heading
		* @return {Option}
		*/
		helpGroup(heading) {
			this.helpGroupHeading = heading;
			return this;
		}
		/**
		* Check if `arg` matches the short or long flag.
		*
		* @param {string} arg
		* @return {boolean}
		* @package
		*/
		is(arg) {
			return this.short === arg || this.long === arg;
		}
		/**
		* Return whether a boolean option.
		*
		* Options are one of boolean, negated, required argument, or optional argument.
		*
		* @return {boolean}
		* @package
		*/
		isBoolean() {
			return !this.required && !this.optional && !this.negate;
		}
	};
	/**
	* This class is to make it easier to work with dual options, without changing the existing
	* implementation. We support separate dual options for separate positive and negative options,
	* like `--build` and `--no-build`, which share a single option value. This works nicely for some
	* use cases, but is tricky for others where we want separate behaviours despite
	* the single shared option value.
	*/
	var DualOptions = class {
		/**
		* @param {Option[]} options
		*/
		constructor(options) {
			this.positiveOptions = /* @__PURE__ */ new Map();
			this.negativeOptions = /* @__PURE__ */ new Map();
			this.dualOptions = /* @__PURE__ */ new Set();
			options.forEach((option) => {
				if (option.negate) this.negativeOptions.set(option.attributeName(), option);
				else this.positiveOptions.set(option.attributeName(), option);
			});
			this.negativeOptions.forEach((value, key) => {
				if (this.positiveOptions.has(key)) this.dualOptions.add(key);
			});
		}
		/**
		* Did the value come from the option, and not from possible matching dual option?
		*
		* @param {*} value
		* @param {Option} option
		* @returns {boolean}
		*/
		valueFromOption(value, option) {
			const optionKey = option.attributeName();
			if (!this.dualOptions.has(optionKey)) return true;
			const preset = this.negativeOptions.get(optionKey).presetArg;
			const negativeValue = preset !== void 0 ? preset : false;
			return option.negate === (negativeValue === value);
		}
	};
	/**
	* Convert string from kebab-case to camelCase.
	*
	* @param {string} str
	* @return {string}
	* @private
	*/
	function camelcase(str) {
		return str.split("-").reduce((str, word) => {
			return str + word[0].toUpperCase() + word.slice(1);
		});
	}
	/**
	* Split the short and long flag out of something like '-m,--mixed <value>'
	*
	* @private
	*/
	function splitOptionFlags(flags) {
		let shortFlag;
		let longFlag;
		const shortFlagExp = /^-[^-]$/;
		const longFlagExp = /^--[^-]/;
		const flagParts = flags.split(/[ |,]+/).concat("guard");
		if (shortFlagExp.test(flagParts[0])) shortFlag = flagParts.shift();
		if (longFlagExp.test(flagParts[0])) longFlag = flagParts.shift();
		if (!shortFlag && shortFlagExp.test(flagParts[0])) shortFlag = flagParts.shift();
		if (!shortFlag && longFlagExp.test(flagParts[0])) {
			shortFlag = longFlag;
			longFlag = flagParts.shift();
		}
		if (flagParts[0].startsWith("-")) {
			const unsupportedFlag = flagParts[0];
			const baseError = `option creation failed due to '${unsupportedFlag}' in option flags '${flags}'`;
			if (/^-[^-][^-]/.test(unsupportedFlag)) throw new Error(`${baseError}
- a short flag is a single dash and a single character
  - either use a single dash and a single character (for a short flag)
  - or use a double dash for a long option (and can have two, like '--ws, --workspace')`);
			if (shortFlagExp.test(unsupportedFlag)) throw new Error(`${baseError}
- too many short flags`);
			if (longFlagExp.test(unsupportedFlag)) throw new Error(`${baseError}
- too many long flags`);
			throw new Error(`${baseError}
- unrecognised flag format`);
		}
		if (shortFlag === void 0 && longFlag === void 0) throw new Error(`option creation failed due to no flags found in '${flags}'.`);
		return {
			shortFlag,
			longFlag
		};
	}
	exports.Option = Option;
	exports.DualOptions = DualOptions;
}));
// node_modules/commander/lib/suggestSimilar.js
var require_suggestSimilar = /* @__PURE__ */ __commonJSMin(((exports) => {
	const maxDistance = 3;
	function editDistance(a, b) {
		if (Math.abs(a.length - b.length) > maxDistance) return Math.max(a.length, b.length);
		const d = [];
		for (let i = 0; i <= a.length; i++) d[i] = [i];
		for (let j = 0; j <= b.length; j++) d[0][j] = j;
		for (let j = 1; j <= b.length; j++) for (let i = 1; i <= a.length; i++) {
			let cost = 1;
			if (a[i - 1] === b[j - 1]) cost = 0;
			else cost = 1;
			d[i][j] = Math.min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) d[i][j] = Math.min(d[i][j], d[i - 2][j - 2] + 1);
		}
		return d[a.length][b.length];
	}
	/**
	* Find close matches, restricted to same number of edits.
	*
	* @param {string} word
	* @param {string[]} candidates
	* @returns {string}
	*/
	function suggestSimilar(word, candidates) {
		if (!candidates || candidates.length === 0) return "";
		candidates = Array.from(new Set(candidates));
		const searchingOptions = word.startsWith("--");
		if (searchingOptions) {
			word = word.slice(2);
			candidates = candidates.map((candidate) => candidate.slice(2));
		}
		let similar = [];
		let bestDistance = maxDistance;
		const minSimilarity = .4;
		candidates.forEach((candidate) => {
			if (candidate.length <= 1) return;
			const distance = editDistance(word, candidate);
			const length = Math.max(word.length, candidate.length);
			if ((length - distance) / length > minSimilarity) {
				if (distance < bestDistance) {
					bestDistance = distance;
					similar = [candidate];
				} else if (distance === bestDistance) similar.push(candidate);
			}
		});
		similar.sort((a, b) => a.localeCompare(b));
		if (searchingOptions) similar = similar.map((candidate) => `--${candidate}`);
		if (similar.length > 1) return `\n(Did you mean one of ${similar.join(", ")}?)`;
		if (similar.length === 1) return `\n(Did you mean ${similar[0]}?)`;
		return "";
	}
	exports.suggestSimilar = suggestSimilar;
}));
// node_modules/commander/lib/command.js
var require_command = /* @__PURE__ */ __commonJSMin(((exports) => {
	const EventEmitter = __require("node:events").EventEmitter;
	const childProcess = __require("node:child_process");
	const path = __require("node:path");
	const fs = __require("node:fs");
	const process = __require("node:process");
	const { Argument, humanReadableArgName } = require_argument();
	const { CommanderError } = require_error();
	const { Help, stripColor } = require_help();
	const { Option, DualOptions } = require_option();
	const { suggestSimilar } = require_suggestSimilar();
	var Command = class Command extends EventEmitter {
		/**
		* Initialize a new `Command`.
		*
		* @param {string} [name]
		*/
		constructor(name) {
			super();
			/** @type {Command[]} */
			this.commands = [];
			/** @type {Option[]} */
			this.options = [];
			this.parent = null;
			this._allowUnknownOption = false;
			this._allowExcessArguments = false;
			/** @type {Argument[]} */
			this.registeredArguments = [];
			this._args = this.registeredArguments;
			/** @type {string[]} */
			this.args = [];
			this.rawArgs = [];
			this.processedArgs = [];
			this._scriptPath = null;
			this._name = name || "";
			this._optionValues = {};
			this._optionValueSources = {};
			this._storeOptionsAsProperties = false;
			this._actionHandler = null;
			this._executableHandler = false;
			this._executableFile = null;
			this._executableDir = null;
			this._defaultCommandName = null;
			this._exitCallback = null;
			this._aliases = [];
			this._combineFlagAndOptionalValue = true;
			this._description = "";
			this._summary = "";
			this._argsDescription = void 0;
			this._enablePositionalOptions = false;
			this._passThroughOptions = false;
			this._lifeCycleHooks = {};
			/** @type {(boolean | string)} */
			this._showHelpAfterError = false;
			this._showSuggestionAfterError = true;
			this._savedState = null;
			this._outputConfiguration = {
				writeOut: (str) => process.stdout.write(str),
				writeErr: (str) => process.stderr.write(str),
				outputError: (str, write) => write(str),
				getOutHelpWidth: () => process.stdout.isTTY ? process.stdout.columns : void 0,
				getErrHelpWidth: () => process.stderr.isTTY ? process.stderr.columns : void 0,
				getOutHasColors: () => useColor() ?? (process.stdout.isTTY && process.stdout.hasColors?.()),
				getErrHasColors: () => useColor() ?? (process.stderr.isTTY && process.stderr.hasColors?.()),
				stripColor: (str) => stripColor(str)
			};
			this._hidden = false;
			/** @type {(Option | null | undefined)} */
			this._helpOption = void 0;
			this._addImplicitHelpCommand = void 0;
			/** @type {Command} */
			this._helpCommand = void 0;
			this._helpConfiguration = {};
			/** @type {string | undefined} */
			this._helpGroupHeading = void 0;
			/** @type {string | undefined} */
			this._defaultCommandGroup = void 0;
			/** @type {string | undefined} */
			this._defaultOptionGroup = void 0;
		}
		/**
		* Copy settings that are useful to have in common across root command and subcommands.
		*
		* (Used internally when adding a command using `.command()` so subcommands inherit parent settings.)
		*
		* @param {Command} sourceCommand
		* @return {Command} `this` command for chaining
		*/
		copyInheritedSettings(sourceCommand) {
			this._outputConfiguration = sourceCommand._outputConfiguration;
			this._helpOption = sourceCommand._helpOption;
			this._helpCommand = sourceCommand._helpCommand;
			this._helpConfiguration = sourceCommand._helpConfiguration;
			this._exitCallback = sourceCommand._exitCallback;
			this._storeOptionsAsProperties = sourceCommand._storeOptionsAsProperties;
			this._combineFlagAndOptionalValue = sourceCommand._combineFlagAndOptionalValue;
			this._allowExcessArguments = sourceCommand._allowExcessArguments;
			this._enablePositionalOptions = sourceCommand._enablePositionalOptions;
			this._showHelpAfterError = sourceCommand._showHelpAfterError;
			this._showSuggestionAfterError = sourceCommand._showSuggestionAfterError;
			return this;
		}
		/**
		* @returns {Command[]}
		* @private
		*/
		_getCommandAndAncestors() {
			const result = [];
			for (let command = this; command; command = command.parent) result.push(command);
			return result;
		}
		/**
		* Define a command.
		*
		* There are two styles of command: pay attention to where to put the description.
		*
		* @example
		* // Command implemented using action handler (description is supplied separately to `.command`)
		* program
		*   .command('clone <source> [destination]')
		*   .description('clone a repository into a newly created directory')
		*   .action((source, destination) => {
		*     console.log('clone command called');
		*   });
		*
		* // Command implemented using separate executable file (description is second parameter to `.command`)
		* program
		*   .command('start <service>', 'start named service')
		*   .command('stop [service]', 'stop named service, or all if no name supplied');
		*
		* @param {string} nameAndArgs - command name and arguments, args are `<required>` or `[optional]` and last may also be `variadic...`
		* @param {(object | string)} [actionOptsOrExecDesc] - configuration options (for action), or description (for executable)
		* @param {object} [execOpts] - configuration options (for executable)
		* @return {Command} returns new command for action handler, or `this` for executable command
		*/
		command(nameAndArgs, actionOptsOrExecDesc, execOpts) {
			let desc = actionOptsOrExecDesc;
			let opts = execOpts;
			if (typeof desc === "object" && desc !== null) {
				opts = desc;
				desc = null;
			}
			opts = opts || {};
			const [, name, args] = nameAndArgs.match(/([^ ]+) *(.*)/);
			const cmd = this.createCommand(name);
			if (desc) {
				cmd.description(desc);
				cmd._executableHandler = true;
			}
			if (opts.isDefault) this._defaultCommandName = cmd._name;
			cmd._hidden = !!(opts.noHelp || opts.hidden);
			cmd._executableFile = opts.executableFile || null;
			if (args) cmd.arguments(args);
			this._registerCommand(cmd);
			cmd.parent = this;
			cmd.copyInheritedSettings(this);
			if (desc) return this;
			return cmd;
		}
		/**
		* Factory routine to create a new unattached command.
		*
		* See .command() for creating an attached subcommand, which uses this routine to
		* create the command. You can override createCommand to customise subcommands.
		*
		* @param {string} [name]
		* @return {Command} new command
		*/
		createCommand(name) {
			return new Command(name);
		}
		/**
		* You can customise the help with a subclass of Help by overriding createHelp,
		* or by overriding Help properties using configureHelp().
		*
		* @return {Help}
		*/
		createHelp() {
			return Object.assign(new Help(), this.configureHelp());
		}
		/**
		* You can customise the help by overriding Help properties using configureHelp(),
		* or with a subclass of Help by overriding createHelp().
		*
		* @param {object} [configuration] - configuration options
		* @return {(Command | object)} `this` command for chaining, or stored configuration
		*/
		configureHelp(configuration) {
			if (configuration === void 0) return this._helpConfiguration;
			this._helpConfiguration = configuration;
			return this;
		}
		/**
		* The default output goes to stdout and stderr. You can customise this for special
		* applications. You can also customise the display of errors by overriding outputError.
		*
		* The configuration properties are all functions:
		*
		*     // change how output being written, defaults to stdout and stderr
		*     writeOut(str)
		*     writeErr(str)
		*     // change how output being written for errors, defaults to writeErr
		*     outputError(str, write) // used for displaying errors and not used for displaying help
		*     // specify width for wrapping help
		*     getOutHelpWidth()
		*     getErrHelpWidth()
		*     // color support, currently only used with Help
		*     getOutHasColors()
		*     getErrHasColors()
		*     stripColor() // used to remove ANSI escape codes if output does not have colors
		*
		* @param {object} [configuration] - configuration options
		* @return {(Command | object)} `this` command for chaining, or stored configuration
		*/
		configureOutput(configuration) {
			if (configuration === void 0) return this._outputConfiguration;
			this._outputConfiguration = {
				...this._outputConfiguration,
				...configuration
			};
			return this;
		}
		/**
		* Display the help or a custom message after an error occurs.
		*
		* @param {(boolean|string)} [displayHelp]
		* @return {Command} `this` command for chaining
		*/
		showHelpAfterError(displayHelp = true) {
			if (typeof displayHelp !== "string") displayHelp = !!displayHelp;
			this._showHelpAfterError = displayHelp;
			return this;
		}
		/**
		* Display suggestion of similar commands for unknown commands, or options for unknown options.
		*
		* @param {boolean} [displaySuggestion]
		* @return {Command} `this` command for chaining
		*/
		showSuggestionAfterError(displaySuggestion = true) {
			this._showSuggestionAfterError = !!displaySuggestion;
			return this;
		}
		/**
		* Add a prepared subcommand.
		*
		* See .command() for creating an attached subcommand which inherits settings from its parent.
		*
		* @param {Command} cmd - new subcommand
		* @param {object} [opts] - configuration options
		* @return {Command} `this` command for chaining
		*/
		addCommand(cmd, opts) {
			if (!cmd._name) throw new Error(`Command passed to .addCommand() must have a name
- specify the name in Command constructor or using .name()`);
			opts = opts || {};
			if (opts.isDefault) this._defaultCommandName = cmd._name;
			if (opts.noHelp || opts.hidden) cmd._hidden = true;
			this._registerCommand(cmd);
			cmd.parent = this;
			cmd._checkForBrokenPassThrough();
			return this;
		}
		/**
		* Factory routine to create a new unattached argument.
		*
		* See .argument() for creating an attached argument, which uses this routine to
		* create the argument. You can override createArgument to return a custom argument.
		*
		* @param {string} name
		* @param {string} [description]
		* @return {Argument} new argument
		*/
		createArgument(name, description) {
			return new Argument(name, description);
		}
		/**
		* Define argument syntax for command.
		*
		* The default is that the argument is required, and you can explicitly
		* indicate this with <> around the name. Put [] around the name for an optional argument.
		*
		* @example
		* program.argument('<input-file>');
		* program.argument('[output-file]');
		*
		* @param {string} name
		* @param {string} [description]
		* @param {(Function|*)} [parseArg] - custom argument processing function or default value
		* @param {*} [defaultValue]
		* @return {Command} `this` command for chaining
		*/
		argument(name, description, parseArg, defaultValue) {
			const argument = this.createArgument(name, description);
			if (typeof parseArg === "function") argument.default(defaultValue).argParser(parseArg);
			else argument.default(parseArg);
			this.addArgument(argument);
			return this;
		}
		/**
		* Define argument syntax for command, adding multiple at once (without descriptions).
		*
		* See also .argument().
		*
		* @example
		* program.arguments('<cmd> [env]');
		*
		* @param {string} names
		* @return {Command} `this` command for chaining
		*/
		arguments(names) {
			names.trim().split(/ +/).forEach((detail) => {
				this.argument(detail);
			});
			return this;
		}
		/**
		* Define argument syntax for command, adding a prepared argument.
		*
		* @param {Argument} argument
		* @return {Command} `this` command for chaining
		*/
		addArgument(argument) {
			const previousArgument = this.registeredArguments.slice(-1)[0];
			if (previousArgument?.variadic) throw new Error(`only the last argument can be variadic '${previousArgument.name()}'`);
			if (argument.required && argument.defaultValue !== void 0 && argument.parseArg === void 0) throw new Error(`a default value for a required argument is never used: '${argument.name()}'`);
			this.registeredArguments.push(argument);
			return this;
		}
		/**
		* Customise or override default help command. By default a help command is automatically added if your command has subcommands.
		*
		* @example
		*    program.helpCommand('help [cmd]');
		*    program.helpCommand('help [cmd]', 'show help');
		*    program.helpCommand(false); // suppress default help command
		*    program.helpCommand(true); // add help command even if no subcommands
		*
		* @param {string|boolean} enableOrNameAndArgs - enable with custom name and/or arguments, or boolean to override whether added
		* @param {string} [description] - custom description
		* @return {Command} `this` command for chaining
		*/
		helpCommand(enableOrNameAndArgs, description) {
			if (typeof enableOrNameAndArgs === "boolean") {
				this._addImplicitHelpCommand = enableOrNameAndArgs;
				if (enableOrNameAndArgs && this._defaultCommandGroup) this._initCommandGroup(this._getHelpCommand());
				return this;
			}
			const [, helpName, helpArgs] = (enableOrNameAndArgs ?? "help [command]").match(/([^ ]+) *(.*)/);
			const helpDescription = description ?? "display help for command";
			const helpCommand = this.createCommand(helpName);
			helpCommand.helpOption(false);
			if (helpArgs) helpCommand.arguments(helpArgs);
			if (helpDescription) helpCommand.description(helpDescription);
			this._addImplicitHelpCommand = true;
			this._helpCommand = helpCommand;
			if (enableOrNameAndArgs || description) this._initCommandGroup(helpCommand);
			return this;
		}
		/**
		* Add prepared custom help command.
		*
		* @param {(Command|string|boolean)} helpCommand - custom help command, or deprecated enableOrNameAndArgs as for `.helpCommand()`
		* @param {string} [deprecatedDescription] - deprecated custom description used with custom name only
		* @return {Command} `this` command for chaining
		*/
		addHelpCommand(helpCommand, deprecatedDescription) {
			if (typeof helpCommand !== "object") {
				this.helpCommand(helpCommand, deprecatedDescription);
				return this;
			}
			this._addImplicitHelpCommand = true;
			this._helpCommand = helpCommand;
			this._initCommandGroup(helpCommand);
			return this;
		}
		/**
		* Lazy create help command.
		*
		* @return {(Command|null)}
		* @package
		*/
		_getHelpCommand() {
			if (this._addImplicitHelpCommand ?? (this.commands.length && !this._actionHandler && !this._findCommand("help"))) {
				if (this._helpCommand === void 0) this.helpCommand(void 0, void 0);
				return this._helpCommand;
			}
			return null;
		}
		/**
		* Add hook for life cycle event.
		*
		* @param {string} event
		* @param {Function} listener
		* @return {Command} `this` command for chaining
		*/
		hook(event, listener) {
			const allowedValues = [
				"preSubcommand",
				"preAction",
				"postAction"
			];
			if (!allowedValues.includes(event)) throw new Error(`Unexpected value for event passed to hook : '${event}'.
Expecting one of '${allowedValues.join("', '")}'`);
			if (this._lifeCycleHooks[event]) this._lifeCycleHooks[event].push(listener);
			else this._lifeCycleHooks[event] = [listener];
			return this;
		}
		/**
		* Register callback to use as replacement for calling process.exit.
		*
		* @param {Function} [fn] optional callback which will be passed a CommanderError, defaults to throwing
		* @return {Command} `this` command for chaining
		*/
		exitOverride(fn) {
			if (fn) this._exitCallback = fn;
			else this._exitCallback = (err) => {
				if (err.code !== "commander.executeSubCommandAsync") throw err;
			};
			return this;
		}
		/**
		* Call process.exit, and _exitCallback if defined.
		*
		* @param {number} exitCode exit code for using with process.exit
		* @param {string} code an id string representing the error
		* @param {string} message human-readable description of the error
		* @return never
		* @private
		*/
		_exit(exitCode, code, message) {
			if (this._exitCallback) this._exitCallback(new CommanderError(exitCode, code, message));
			process.exit(exitCode);
		}
		/**
		* Register callback `fn` for the command.
		*
		* @example
		* program
		*   .command('serve')
		*   .description('start service')
		*   .action(function() {
		*      // do work here
		*   });
		*
		* @param {Function} fn
		* @return {Command} `this` command for chaining
		*/
		action(fn) {
			const listener = (args) => {
				const expectedArgsCount = this.registeredArguments.length;
				const actionArgs = args.slice(0, expectedArgsCount);
				if (this._storeOptionsAsProperties) actionArgs[expectedArgsCount] = this;
				else actionArgs[expectedArgsCount] = this.opts();
				actionArgs.push(this);
				return fn.apply(this, actionArgs);
			};
			this._actionHandler = listener;
			return this;
		}
		/**
		* Factory routine to create a new unattached option.
		*
		* See .option() for creating an attached option, which uses this routine to
		* create the option. You can override createOption to return a custom option.
		*
		* @param {string} flags
		* @param {string} [description]
		* @return {Option} new option
		*/
		createOption(flags, description) {
			return new Option(flags, description);
		}
		/**
		* Wrap parseArgs to catch 'commander.invalidArgument'.
		*
		* @param {(Option | Argument)} target
		* @param {string} value
		* @param {*} previous
		* @param {string} invalidArgumentMessage
		* @private
		*/
		_callParseArg(target, value, previous, invalidArgumentMessage) {
			try {
				return target.parseArg(value, previous);
			} catch (err) {
				if (err.code === "commander.invalidArgument") {
					const message = `${invalidArgumentMessage} ${err.message}`;
					this.error(message, {
						exitCode: err.exitCode,
						code: err.code
					});
				}
				throw err;
			}
		}
		/**
		* Check for option flag conflicts.
		* Register option if no conflicts found, or throw on conflict.
		*
		* @param {Option} option
		* @private
		*/
		_registerOption(option) {
			const matchingOption = option.short && this._findOption(option.short) || option.long && this._findOption(option.long);
			if (matchingOption) {
				const matchingFlag = option.long && this._findOption(option.long) ? option.long : option.short;
				throw new Error(`Cannot add option '${option.flags}'${this._name && ` to command '${this._name}'`} due to conflicting flag '${matchingFlag}'
-  already used by option '${matchingOption.flags}'`);
			}
			this._initOptionGroup(option);
			this.options.push(option);
		}
		/**
		* Check for command name and alias conflicts with existing commands.
		* Register command if no conflicts found, or throw on conflict.
		*
		* @param {Command} command
		* @private
		*/
		_registerCommand(command) {
			const knownBy = (cmd) => {
				return [cmd.name()].concat(cmd.aliases());
			};
			const alreadyUsed = knownBy(command).find((name) => this._findCommand(name));
			if (alreadyUsed) {
				const existingCmd = knownBy(this._findCommand(alreadyUsed)).join("|");
				const newCmd = knownBy(command).join("|");
				throw new Error(`cannot add command '${newCmd}' as already have command '${existingCmd}'`);
			}
			this._initCommandGroup(command);
			this.commands.push(command);
		}
		/**
		* Add an option.
		*
		* @param {Option} option
		* @return {Command} `this` command for chaining
		*/
		addOption(option) {
			this._registerOption(option);
			const oname = option.name();
			const name = option.attributeName();
			if (option.negate) {
				const positiveLongFlag = option.long.replace(/^--no-/, "--");
				if (!this._findOption(positiveLongFlag)) this.setOptionValueWithSource(name, option.defaultValue === void 0 ? true : option.defaultValue, "default");
			} else if (option.defaultValue !== void 0) this.setOptionValueWithSource(name, option.defaultValue, "default");
			const handleOptionValue = (val, invalidValueMessage, valueSource) => {
				if (val == null && option.presetArg !== void 0) val = option.presetArg;
				const oldValue = this.getOptionValue(name);
				if (val !== null && option.parseArg) val = this._callParseArg(option, val, oldValue, invalidValueMessage);
				else if (val !== null && option.variadic) val = option._collectValue(val, oldValue);
				if (val == null) {
					if (option.negate) val = false;
					else if (option.isBoolean() || option.optional) val = true;
					else val = "";
				}
				this.setOptionValueWithSource(name, val, valueSource);
			};
			this.on("option:" + oname, (val) => {
				const invalidValueMessage = `error: option '${option.flags}' argument '${val}' is invalid.`;
				handleOptionValue(val, invalidValueMessage, "cli");
			});
			if (option.envVar) this.on("optionEnv:" + oname, (val) => {
				const invalidValueMessage = `error: option '${option.flags}' value '${val}' from env '${option.envVar}' is invalid.`;
				handleOptionValue(val, invalidValueMessage, "env");
			});
			return this;
		}
		/**
		* Internal implementation shared by .option() and .requiredOption()
		*
		* @return {Command} `this` command for chaining
		* @private
		*/
		_optionEx(config, flags, description, fn, defaultValue) {
			if (typeof flags === "object" && flags instanceof Option) throw new Error("To add an Option object use addOption() instead of option() or requiredOption()");
			const option = this.createOption(flags, description);
			option.makeOptionMandatory(!!config.mandatory);
			if (typeof fn === "function") option.default(defaultValue).argParser(fn);
			else if (fn instanceof RegExp) {
				const regex = fn;
				fn = (val, def) => {
					const m = regex.exec(val);
					return m ? m[0] : def;
				};
				option.default(defaultValue).argParser(fn);
			} else option.default(fn);
			return this.addOption(option);
		}
		/**
		* Define option with `flags`, `description`, and optional argument parsing function or `defaultValue` or both.
		*
		* The `flags` string contains the short and/or long flags, separated by comma, a pipe or space. A required
		* option-argument is indicated by `<>` and an optional option-argument by `[]`.
		*
		* See the README for more details, and see also addOption() and requiredOption().
		*
		* @example
		* program
		*     .option('-p, --pepper', 'add pepper')
		*     .option('--pt, --pizza-type <TYPE>', 'type of pizza') // required option-argument
		*     .option('-c, --cheese [CHEESE]', 'add extra cheese', 'mozzarella') // optional option-argument with default
		*     .option('-t, --tip <VALUE>', 'add tip to purchase cost', parseFloat) // custom parse function
		*
		* @param {string} flags
		* @param {string} [description]
		* @param {(Function|*)} [parseArg] - custom option processing function or default value
		* @param {*} [defaultValue]
		* @return {Command} `this` command for chaining
		*/
		option(flags, description, parseArg, defaultValue) {
			return this._optionEx({}, flags, description, parseArg, defaultValue);
		}
		/**
		* Add a required option which must have a value after parsing. This usually means
		* the option must be specified on the command line. (Otherwise the same as .option().)
		*
		* The `flags` string contains the short and/or long flags, separated by comma, a pipe or space.
		*
		* @param {string} flags
		* @param {string} [description]
		* @param {(Function|*)} [parseArg] - custom option processing function or default value
		* @param {*} [defaultValue]
		* @return {Command} `this` command for chaining
		*/
		requiredOption(flags, description, parseArg, defaultValue) {
			return this._optionEx({ mandatory: true }, flags, description, parseArg, defaultValue);
		}
		/**
		* Alter parsing of short flags with optional values.
		*
		* @example
		* // for `.option('-f,--flag [value]'):
		* program.combineFlagAndOptionalValue(true);  // `-f80` is treated like `--flag=80`, this is the default behaviour
		* program.combineFlagAndOptionalValue(false) // `-fb` is treated like `-f -b`
		*
		* @param {boolean} [combine] - if `true` or omitted, an optional value can be specified directly after the flag.
		* @return {Command} `this` command for chaining
		*/
		combineFlagAndOptionalValue(combine = true) {
			this._combineFlagAndOptionalValue = !!combine;
			return this;
		}
		/**
		* Allow unknown options on the command line.
		*
		* @param {boolean} [allowUnknown] - if `true` or omitted, no error will be thrown for unknown options.
		* @return {Command} `this` command for chaining
		*/
		allowUnknownOption(allowUnknown = true) {
			this._allowUnknownOption = !!allowUnknown;
			return this;
		}
		/**
		* Allow excess command-arguments on the command line. Pass false to make excess arguments an error.
		*
		* @param {boolean} [allowExcess] - if `true` or omitted, no error will be thrown for excess arguments.
		* @return {Command} `this` command for chaining
		*/
		allowExcessArguments(allowExcess = true) {
			this._allowExcessArguments = !!allowExcess;
			return this;
		}
		/**
		* Enable positional options. Positional means global options are specified before subcommands which lets
		* subcommands reuse the same option names, and also enables subcommands to turn on passThroughOptions.
		* The default behaviour is non-positional and global options may appear anywhere on the command line.
		*
		* @param {boolean} [positional]
		* @return {Command} `this` command for chaining
		*/
		enablePositionalOptions(positional = true) {
			this._enablePositionalOptions = !!positional;
			return this;
		}
		/**
		* Pass through options that come after command-arguments rather than treat them as command-options,
		* so actual command-options come before command-arguments. Turning this on for a subcommand requires
		* positional options to have been enabled on the program (parent commands).
		* The default behaviour is non-positional and options may appear before or after command-arguments.
		*
		* @param {boolean} [passThrough] for unknown options.
		* @return {Command} `this` command for chaining
		*/
		passThroughOptions(passThrough = true) {
			this._passThroughOptions = !!passThrough;
			this._checkForBrokenPassThrough();
			return this;
		}
		/**
		* @private
		*/
		_checkForBrokenPassThrough() {
			if (this.parent && this._passThroughOptions && !this.parent._enablePositionalOptions) throw new Error(`passThroughOptions cannot be used for '${this._name}' without turning on enablePositionalOptions for parent command(s)`);
		}
		/**
		* Whether to store option values as properties on command object,
		* or store separately (specify false). In both cases the option values can be accessed using .opts().
		*
		* @param {boolean} [storeAsProperties=true]
		* @return {Command} `this` command for chaining
		*/
		storeOptionsAsProperties(storeAsProperties = true) {
			if (this.options.length) throw new Error("call .storeOptionsAsProperties() before adding options");
			if (Object.keys(this._optionValues).length) throw new Error("call .storeOptionsAsProperties() before setting option values");
			this._storeOptionsAsProperties = !!storeAsProperties;
			return this;
		}
		/**
		* Retrieve option value.
		*
		* @param {string} key
		* @return {object} value
		*/
		getOptionValue(key) {
			if (this._storeOptionsAsProperties) return this[key];
			return this._optionValues[key];
		}
		/**
		* Store option value.
		*
		* @param {string} key
		* @param {object} value
		* @return {Command} `this` command for chaining
		*/
		setOptionValue(key, value) {
			return this.setOptionValueWithSource(key, value, void 0);
		}
		/**
		* Store option value and where the value came from.
		*
		* @param {string} key
		* @param {object} value
		* @param {string} source - expected values are default/config/env/cli/implied
		* @return {Command} `this` command for chaining
		*/
		setOptionValueWithSource(key, value, source) {
			if (this._storeOptionsAsProperties) this[key] = value;
			else this._optionValues[key] = value;
			this._optionValueSources[key] = source;
			return this;
		}
		/**
		* Get source of option value.
		* Expected values are default | config | env | cli | implied
		*
		* @param {string} key
		* @return {string}
		*/
		getOptionValueSource(key) {
			return this._optionValueSources[key];
		}
		/**
		* Get source of option value. See also .optsWithGlobals().
		* Expected values are default | config | env | cli | implied
		*
		* @param {string} key
		* @return {string}
		*/
		getOptionValueSourceWithGlobals(key) {
			let source;
			this._getCommandAndAncestors().forEach((cmd) => {
				if (cmd.getOptionValueSource(key) !== void 0) source = cmd.getOptionValueSource(key);
			});
			return source;
		}
		/**
		* Get user arguments from implied or explicit arguments.
		* Side-effects: set _scriptPath if args included script. Used for default program name, and subcommand searches.
		*
		* @private
		*/
		_prepareUserArgs(argv, parseOptions) {
			if (argv !== void 0 && !Array.isArray(argv)) throw new Error("first parameter to parse must be array or undefined");
			parseOptions = parseOptions || {};
			if (argv === void 0 && parseOptions.from === void 0) {
				if (process.versions?.electron) parseOptions.from = "electron";
				const execArgv = process.execArgv ?? [];
				if (execArgv.includes("-e") || execArgv.includes("--eval") || execArgv.includes("-p") || execArgv.includes("--print")) parseOptions.from = "eval";
			}
			if (argv === void 0) argv = process.argv;
			this.rawArgs = argv.slice();
			let userArgs;
			switch (parseOptions.from) {
				case void 0:
				case "node":
					this._scriptPath = argv[1];
					userArgs = argv.slice(2);
					break;
				case "electron":
					if (process.defaultApp) {
						this._scriptPath = argv[1];
						userArgs = argv.slice(2);
					} else userArgs = argv.slice(1);
					break;
				case "user":
					userArgs = argv.slice(0);
					break;
				case "eval":
					userArgs = argv.slice(1);
					break;
				default: throw new Error(`unexpected parse option { from: '${parseOptions.from}' }`);
			}
			if (!this._name && this._scriptPath) this.nameFromFilename(this._scriptPath);
			this._name = this._name || "program";
			return userArgs;
		}
		/**
		* Parse `argv`, setting options and invoking commands when defined.
		*
		* Use parseAsync instead of parse if any of your action handlers are async.
		*
		* Call with no parameters to parse `process.argv`. Detects Electron and special node options like `node --eval`. Easy mode!
		*
		* Or call with an array of strings to parse, and optionally where the user arguments start by specifying where the arguments are `from`:
		* - `'node'`: default, `argv[0]` is the application and `argv[1]` is the script being run, with user arguments after that
		* - `'electron'`: `argv[0]` is the application and `argv[1]` varies depending on whether the electron application is packaged
		* - `'user'`: just user arguments
		*
		* @example
		* program.parse(); // parse process.argv and auto-detect electron and special node flags
		* program.parse(process.argv); // assume argv[0] is app and argv[1] is script
		* program.parse(my-args, { from: 'user' }); // just user supplied arguments, nothing special about argv[0]
		*
		* @param {string[]} [argv] - optional, defaults to process.argv
		* @param {object} [parseOptions] - optionally specify style of options with from: node/user/electron
		* @param {string} [parseOptions.from] - where the args are from: 'node', 'user', 'electron'
		* @return {Command} `this` command for chaining
		*/
		parse(argv, parseOptions) {
			this._prepareForParse();
			const userArgs = this._prepareUserArgs(argv, parseOptions);
			this._parseCommand([], userArgs);
			return this;
		}
		/**
		* Parse `argv`, setting options and invoking commands when defined.
		*
		* Call with no parameters to parse `process.argv`. Detects Electron and special node options like `node --eval`. Easy mode!
		*
		* Or call with an array of strings to parse, and optionally where the user arguments start by specifying where the arguments are `from`:
		* - `'node'`: default, `argv[0]` is the application and `argv[1]` is the script being run, with user arguments after that
		* - `'electron'`: `argv[0]` is the application and `argv[1]` varies depending on whether the electron application is packaged
		* - `'user'`: just user arguments
		*
		* @example
		* await program.parseAsync(); // parse process.argv and auto-detect electron and special node flags
		* await program.parseAsync(process.argv); // assume argv[0] is app and argv[1] is script
		* await program.parseAsync(my-args, { from: 'user' }); // just user supplied arguments, nothing special about argv[0]
		*
		* @param {string[]} [argv]
		* @param {object} [parseOptions]
		* @param {string} parseOptions.from - where the args are from: 'node', 'user', 'electron'
		* @return {Promise}
		*/
		async parseAsync(argv, parseOptions) {
			this._prepareForParse();
			const userArgs = this._prepareUserArgs(argv, parseOptions);
			await this._parseCommand([], userArgs);
			return this;
		}
		_prepareForParse() {
			if (this._savedState === null) this.saveStateBeforeParse();
			else this.restoreStateBeforeParse();
		}
		/**
		* Called the first time parse is called to save state and allow a restore before subsequent calls to parse.
		* Not usually called directly, but available for subclasses to save their custom state.
		*
		* This is called in a lazy way. Only commands used in parsing chain will have state saved.
		*/
		saveStateBeforeParse() {
			this._savedState = {
				_name: this._name,
				_optionValues: { ...this._optionValues },
				_optionValueSources: { ...this._optionValueSources }
			};
		}
		/**
		* Restore state before parse for calls after the first.
		* Not usually called directly, but available for subclasses to save their custom state.
		*
		* This is called in a lazy way. Only commands used in parsing chain will have state restored.
		*/
		restoreStateBeforeParse() {
			if (this._storeOptionsAsProperties) throw new Error(`Can not call parse again when storeOptionsAsProperties is true.
- either make a new Command for each call to parse, or stop storing options as properties`);
			this._name = this._savedState._name;
			this._scriptPath = null;
			this.rawArgs = [];
			this._optionValues = { ...this._savedState._optionValues };
			this._optionValueSources = { ...this._savedState._optionValueSources };
			this.args = [];
			this.processedArgs = [];
		}
		/**
		* Throw if expected executable is missing. Add lots of help for author.
		*
		* @param {string} executableFile
		* @param {string} executableDir
		* @param {string} subcommandName
		*/
		_checkForMissingExecutable(executableFile, executableDir, subcommandName) {
			if (fs.existsSync(executableFile)) return;
			const executableMissing = `'${executableFile}' does not exist
 - if '${subcommandName}' is not meant to be an executable command, remove description parameter from '.command()' and use '.description()' instead
 - if the default executable name is not suitable, use the executableFile option to supply a custom name or path
 - ${executableDir ? `searched for local subcommand relative to directory '${executableDir}'` : "no directory for search for local subcommand, use .executableDir() to supply a custom directory"}`;
			throw new Error(executableMissing);
		}
		/**
		* Execute a sub-command executable.
		*
		* @private
		*/
		_executeSubCommand(subcommand, args) {
			args = args.slice();
			let launchWithNode = false;
			const sourceExt = [
				".js",
				".ts",
				".tsx",
				".mjs",
				".cjs"
			];
			function findFile(baseDir, baseName) {
				const localBin = path.resolve(baseDir, baseName);
				if (fs.existsSync(localBin)) return localBin;
				if (sourceExt.includes(path.extname(baseName))) return void 0;
				const foundExt = sourceExt.find((ext) => fs.existsSync(`${localBin}${ext}`));
				if (foundExt) return `${localBin}${foundExt}`;
			}
			this._checkForMissingMandatoryOptions();
			this._checkForConflictingOptions();
			let executableFile = subcommand._executableFile || `${this._name}-${subcommand._name}`;
			let executableDir = this._executableDir || "";
			if (this._scriptPath) {
				let resolvedScriptPath;
				try {
					resolvedScriptPath = fs.realpathSync(this._scriptPath);
				} catch {
					resolvedScriptPath = this._scriptPath;
				}
				executableDir = path.resolve(path.dirname(resolvedScriptPath), executableDir);
			}
			if (executableDir) {
				let localFile = findFile(executableDir, executableFile);
				if (!localFile && !subcommand._executableFile && this._scriptPath) {
					const legacyName = path.basename(this._scriptPath, path.extname(this._scriptPath));
					if (legacyName !== this._name) localFile = findFile(executableDir, `${legacyName}-${subcommand._name}`);
				}
				executableFile = localFile || executableFile;
			}
			launchWithNode = sourceExt.includes(path.extname(executableFile));
			let proc;
			if (process.platform !== "win32") {
				if (launchWithNode) {
					args.unshift(executableFile);
					args = incrementNodeInspectorPort(process.execArgv).concat(args);
					proc = childProcess.spawn(process.argv[0], args, { stdio: "inherit" });
				} else proc = childProcess.spawn(executableFile, args, { stdio: "inherit" });
			} else {
				this._checkForMissingExecutable(executableFile, executableDir, subcommand._name);
				args.unshift(executableFile);
				args = incrementNodeInspectorPort(process.execArgv).concat(args);
				proc = childProcess.spawn(process.execPath, args, { stdio: "inherit" });
			}
			if (!proc.killed) [
				"SIGUSR1",
				"SIGUSR2",
				"SIGTERM",
				"SIGINT",
				"SIGHUP"
			].forEach((signal) => {
				process.on(signal, () => {
					if (proc.killed === false && proc.exitCode === null) proc.kill(signal);
				});
			});
			const exitCallback = this._exitCallback;
			proc.on("close", (code) => {
				code = code ?? 1;
				if (!exitCallback) process.exit(code);
				else exitCallback(new CommanderError(code, "commander.executeSubCommandAsync", "(close)"));
			});
			proc.on("error", (err) => {
				if (err.code === "ENOENT") this._checkForMissingExecutable(executableFile, executableDir, subcommand._name);
				else if (err.code === "EACCES") throw new Error(`'${executableFile}' not executable`);
				if (!exitCallback) process.exit(1);
				else {
					const wrappedError = new CommanderError(1, "commander.executeSubCommandAsync", "(error)");
					wrappedError.nestedError = err;
					exitCallback(wrappedError);
				}
			});
			this.runningCommand = proc;
		}
		/**
		* @private
		*/
		_dispatchSubcommand(commandName, operands, unknown) {
			const subCommand = this._findCommand(commandName);
			if (!subCommand) this.help({ error: true });
			subCommand._prepareForParse();
			let promiseChain;
			promiseChain = this._chainOrCallSubCommandHook(promiseChain, subCommand, "preSubcommand");
			promiseChain = this._chainOrCall(promiseChain, () => {
				if (subCommand._executableHandler) this._executeSubCommand(subCommand, operands.concat(unknown));
				else return subCommand._parseCommand(operands, unknown);
			});
			return promiseChain;
		}
		/**
		* Invoke help directly if possible, or dispatch if necessary.
		* e.g. help foo
		*
		* @private
		*/
		_dispatchHelpCommand(subcommandName) {
			if (!subcommandName) this.help();
			const subCommand = this._findCommand(subcommandName);
			if (subCommand && !subCommand._executableHandler) subCommand.help();
			return this._dispatchSubcommand(subcommandName, [], [this._getHelpOption()?.long ?? this._getHelpOption()?.short ?? "--help"]);
		}
		/**
		* Check this.args against expected this.registeredArguments.
		*
		* @private
		*/
		_checkNumberOfArguments() {
			this.registeredArguments.forEach((arg, i) => {
				if (arg.required && this.args[i] == null) this.missingArgument(arg.name());
			});
			if (this.registeredArguments.length > 0 && this.registeredArguments[this.registeredArguments.length - 1].variadic) return;
			if (this.args.length > this.registeredArguments.length) this._excessArguments(this.args);
		}
		/**
		* Process this.args using this.registeredArguments and save as this.processedArgs!
		*
		* @private
		*/
		_processArguments() {
			const myParseArg = (argument, value, previous) => {
				let parsedValue = value;
				if (value !== null && argument.parseArg) {
					const invalidValueMessage = `error: command-argument value '${value}' is invalid for argument '${argument.name()}'.`;
					parsedValue = this._callParseArg(argument, value, previous, invalidValueMessage);
				}
				return parsedValue;
			};
			this._checkNumberOfArguments();
			const processedArgs = [];
			this.registeredArguments.forEach((declaredArg, index) => {
				let value = declaredArg.defaultValue;
				if (declaredArg.variadic) {
					if (index < this.args.length) {
						value = this.args.slice(index);
						if (declaredArg.parseArg) value = value.reduce((processed, v) => {
							return myParseArg(declaredArg, v, processed);
						}, declaredArg.defaultValue);
					} else if (value === void 0) value = [];
				} else if (index < this.args.length) {
					value = this.args[index];
					if (declaredArg.parseArg) value = myParseArg(declaredArg, value, declaredArg.defaultValue);
				}
				processedArgs[index] = value;
			});
			this.processedArgs = processedArgs;
		}
		/**
		* Once we have a promise we chain, but call synchronously until then.
		*
		* @param {(Promise|undefined)} promise
		* @param {Function} fn
		* @return {(Promise|undefined)}
		* @private
		*/
		_chainOrCall(promise, fn) {
			if (promise?.then && typeof promise.then === "function") return promise.then(() => fn());
			return fn();
		}
		/**
		*
		* @param {(Promise|undefined)} promise
		* @param {string} event
		* @return {(Promise|undefined)}
		* @private
		*/
		_chainOrCallHooks(promise, event) {
			let result = promise;
			const hooks = [];
			this._getCommandAndAncestors().reverse().filter((cmd) => cmd._lifeCycleHooks[event] !== void 0).forEach((hookedCommand) => {
				hookedCommand._lifeCycleHooks[event].forEach((callback) => {
					hooks.push({
						hookedCommand,
						callback
					});
				});
			});
			if (event === "postAction") hooks.reverse();
			hooks.forEach((hookDetail) => {
				result = this._chainOrCall(result, () => {
					return hookDetail.callback(hookDetail.hookedCommand, this);
				});
			});
			return result;
		}
		/**
		*
		* @param {(Promise|undefined)} promise
		* @param {Command} subCommand
		* @param {string} event
		* @return {(Promise|undefined)}
		* @private
		*/
		_chainOrCallSubCommandHook(promise, subCommand, event) {
			let result = promise;
			if (this._lifeCycleHooks[event] !== void 0) this._lifeCycleHooks[event].forEach((hook) => {
				result = this._chainOrCall(result, () => {
					return hook(this, subCommand);
				});
			});
			return result;
		}
		/**
		* Process arguments in context of this command.
		* Returns action result, in case it is a promise.
		*
		* @private
		*/
		_parseCommand(operands, unknown) {
			const parsed = this.parseOptions(unknown);
			this._parseOptionsEnv();
			this._parseOptionsImplied();
			operands = operands.concat(parsed.operands);
			unknown = parsed.unknown;
			this.args = operands.concat(unknown);
			if (operands && this._findCommand(operands[0])) return this._dispatchSubcommand(operands[0], operands.slice(1), unknown);
			if (this._getHelpCommand() && operands[0] === this._getHelpCommand().name()) return this._dispatchHelpCommand(operands[1]);
			if (this._defaultCommandName) {
				this._outputHelpIfRequested(unknown);
				return this._dispatchSubcommand(this._defaultCommandName, operands, unknown);
			}
			if (this.commands.length && this.args.length === 0 && !this._actionHandler && !this._defaultCommandName) this.help({ error: true });
			this._outputHelpIfRequested(parsed.unknown);
			this._checkForMissingMandatoryOptions();
			this._checkForConflictingOptions();
			const checkForUnknownOptions = () => {
				if (parsed.unknown.length > 0) this.unknownOption(parsed.unknown[0]);
			};
			const commandEvent = `command:${this.name()}`;
			if (this._actionHandler) {
				checkForUnknownOptions();
				this._processArguments();
				let promiseChain;
				promiseChain = this._chainOrCallHooks(promiseChain, "preAction");
				promiseChain = this._chainOrCall(promiseChain, () => this._actionHandler(this.processedArgs));
				if (this.parent) promiseChain = this._chainOrCall(promiseChain, () => {
					this.parent.emit(commandEvent, operands, unknown);
				});
				promiseChain = this._chainOrCallHooks(promiseChain, "postAction");
				return promiseChain;
			}
			if (this.parent?.listenerCount(commandEvent)) {
				checkForUnknownOptions();
				this._processArguments();
				this.parent.emit(commandEvent, operands, unknown);
			} else if (operands.length) {
				if (this._findCommand("*")) return this._dispatchSubcommand("*", operands, unknown);
				if (this.listenerCount("command:*")) this.emit("command:*", operands, unknown);
				else if (this.commands.length) this.unknownCommand();
				else {
					checkForUnknownOptions();
					this._processArguments();
				}
			} else if (this.commands.length) {
				checkForUnknownOptions();
				this.help({ error: true });
			} else {
				checkForUnknownOptions();
				this._processArguments();
			}
		}
		/**
		* Find matching command.
		*
		* @private
		* @return {Command | undefined}
		*/
		_findCommand(name) {
			if (!name) return void 0;
			return this.commands.find((cmd) => cmd._name === name || cmd._aliases.includes(name));
		}
		/**
		* Return an option matching `arg` if any.
		*
		* @param {string} arg
		* @return {Option}
		* @package
		*/
		_findOption(arg) {
			return this.options.find((option) => option.is(arg));
		}
		/**
		* Display an error message if a mandatory option does not have a value.
		* Called after checking for help flags in leaf subcommand.
		*
		* @private
		*/
		_checkForMissingMandatoryOptions() {
			this._getCommandAndAncestors().forEach((cmd) => {
				cmd.options.forEach((anOption) => {
					if (anOption.mandatory && cmd.getOptionValue(anOption.attributeName()) === void 0) cmd.missingMandatoryOptionValue(anOption);
				});
			});
		}
		/**
		* Display an error message if conflicting options are used together in this.
		*
		* @private
		*/
		_checkForConflictingLocalOptions() {
			const definedNonDefaultOptions = this.options.filter((option) => {
				const optionKey = option.attributeName();
				if (this.getOptionValue(optionKey) === void 0) return false;
				return this.getOptionValueSource(optionKey) !== "default";
			});
			definedNonDefaultOptions.filter((option) => option.conflictsWith.length > 0).forEach((option) => {
				const conflictingAndDefined = definedNonDefaultOptions.find((defined) => option.conflictsWith.includes(defined.attributeName()));
				if (conflictingAndDefined) this._conflictingOption(option, conflictingAndDefined);
			});
		}
		/**
		* Display an error message if conflicting options are used together.
		* Called after checking for help flags in leaf subcommand.
		*
		* @private
		*/
		_checkForConflictingOptions() {
			this._getCommandAndAncestors().forEach((cmd) => {
				cmd._checkForConflictingLocalOptions();
			});
		}
		/**
		* Parse options from `argv` removing known options,
		* and return argv split into operands and unknown arguments.
		*
		* Side effects: modifies command by storing options. Does not reset state if called again.
		*
		* Examples:
		*
		*     argv => operands, unknown
		*     --known kkk op => [op], []
		*     op --known kkk => [op], []
		*     sub --unknown uuu op => [sub], [--unknown uuu op]
		*     sub -- --unknown uuu op => [sub --unknown uuu op], []
		*
		* @param {string[]} args
		* @return {{operands: string[], unknown: string[]}}
		*/
		parseOptions(args) {
			const operands = [];
			const unknown = [];
			let dest = operands;
			function maybeOption(arg) {
				return arg.length > 1 && arg[0] === "-";
			}
			const negativeNumberArg = (arg) => {
				if (!/^-(\d+|\d*\.\d+)(e[+-]?\d+)?$/.test(arg)) return false;
				return !this._getCommandAndAncestors().some((cmd) => cmd.options.map((opt) => opt.short).some((short) => /^-\d$/.test(short)));
			};
			let activeVariadicOption = null;
			let activeGroup = null;
			let i = 0;
			while (i < args.length || activeGroup) {
				const arg = activeGroup ?? args[i++];
				activeGroup = null;
				if (arg === "--") {
					if (dest === unknown) dest.push(arg);
					dest.push(...args.slice(i));
					break;
				}
				if (activeVariadicOption && (!maybeOption(arg) || negativeNumberArg(arg))) {
					this.emit(`option:${activeVariadicOption.name()}`, arg);
					continue;
				}
				activeVariadicOption = null;
				if (maybeOption(arg)) {
					const option = this._findOption(arg);
					if (option) {
						if (option.required) {
							const value = args[i++];
							if (value === void 0) this.optionMissingArgument(option);
							this.emit(`option:${option.name()}`, value);
						} else if (option.optional) {
							let value = null;
							if (i < args.length && (!maybeOption(args[i]) || negativeNumberArg(args[i]))) value = args[i++];
							this.emit(`option:${option.name()}`, value);
						} else this.emit(`option:${option.name()}`);
						activeVariadicOption = option.variadic ? option : null;
						continue;
					}
				}
				if (arg.length > 2 && arg[0] === "-" && arg[1] !== "-") {
					const option = this._findOption(`-${arg[1]}`);
					if (option) {
						if (option.required || option.optional && this._combineFlagAndOptionalValue) this.emit(`option:${option.name()}`, arg.slice(2));
						else {
							this.emit(`option:${option.name()}`);
							activeGroup = `-${arg.slice(2)}`;
						}
						continue;
					}
				}
				if (/^--[^=]+=/.test(arg)) {
					const index = arg.indexOf("=");
					const option = this._findOption(arg.slice(0, index));
					if (option && (option.required || option.optional)) {
						this.emit(`option:${option.name()}`, arg.slice(index + 1));
						continue;
					}
				}
				if (dest === operands && maybeOption(arg) && !(this.commands.length === 0 && negativeNumberArg(arg))) dest = unknown;
				if ((this._enablePositionalOptions || this._passThroughOptions) && operands.length === 0 && unknown.length === 0) {
					if (this._findCommand(arg)) {
						operands.push(arg);
						unknown.push(...args.slice(i));
						break;
					} else if (this._getHelpCommand() && arg === this._getHelpCommand().name()) {
						operands.push(arg, ...args.slice(i));
						break;
					} else if (this._defaultCommandName) {
						unknown.push(arg, ...args.slice(i));
						break;
					}
				}
				if (this._passThroughOptions) {
					dest.push(arg, ...args.slice(i));
					break;
				}
				dest.push(arg);
			}
			return {
				operands,
				unknown
			};
		}
		/**
		* Return an object containing local option values as key-value pairs.
		*
		* @return {object}
		*/
		opts() {
			if (this._storeOptionsAsProperties) {
				const result = {};
				const len = this.options.length;
				for (let i = 0; i < len; i++) {
					const key = this.options[i].attributeName();
					result[key] = key === this._versionOptionName ? this._version : this[key];
				}
				return result;
			}
			return this._optionValues;
		}
		/**
		* Return an object containing merged local and global option values as key-value pairs.
		*
		* @return {object}
		*/
		optsWithGlobals() {
			return this._getCommandAndAncestors().reduce((combinedOptions, cmd) => Object.assign(combinedOptions, cmd.opts()), {});
		}
		/**
		* Display error message and exit (or call exitOverride).
		*
		* @param {string} message
		* @param {object} [errorOptions]
		* @param {string} [errorOptions.code] - an id string representing the error
		* @param {number} [errorOptions.exitCode] - used with process.exit
		*/
		error(message, errorOptions) {
			this._outputConfiguration.outputError(`${message}\n`, this._outputConfiguration.writeErr);
			if (typeof this._showHelpAfterError === "string") this._outputConfiguration.writeErr(`${this._showHelpAfterError}\n`);
			else if (this._showHelpAfterError) {
				this._outputConfiguration.writeErr("\n");
				this.outputHelp({ error: true });
			}
			const config = errorOptions || {};
			const exitCode = config.exitCode || 1;
			const code = config.code || "commander.error";
			this._exit(exitCode, code, message);
		}
		/**
		* Apply any option related environment variables, if option does
		* not have a value from cli or client code.
		*
		* @private
		*/
		_parseOptionsEnv() {
			this.options.forEach((option) => {
				if (option.envVar && option.envVar in process.env) {
					const optionKey = option.attributeName();
					if (this.getOptionValue(optionKey) === void 0 || [
						"default",
						"config",
						"env"
					].includes(this.getOptionValueSource(optionKey))) {
						if (option.required || option.optional) this.emit(`optionEnv:${option.name()}`, process.env[option.envVar]);
						else this.emit(`optionEnv:${option.name()}`);
					}
				}
			});
		}
		/**
		* Apply any implied option values, if option is undefined or default value.
		*
		* @private
		*/
		_parseOptionsImplied() {
			const dualHelper = new DualOptions(this.options);
			const hasCustomOptionValue = (optionKey) => {
				return this.getOptionValue(optionKey) !== void 0 && !["default", "implied"].includes(this.getOptionValueSource(optionKey));
			};
			this.options.filter((option) => option.implied !== void 0 && hasCustomOptionValue(option.attributeName()) && dualHelper.valueFromOption(this.getOptionValue(option.attributeName()), option)).forEach((option) => {
				Object.keys(option.implied).filter((impliedKey) => !hasCustomOptionValue(impliedKey)).forEach((impliedKey) => {
					this.setOptionValueWithSource(impliedKey, option.implied[impliedKey], "implied");
				});
			});
		}
		/**
		* Argument `name` is missing.
		*
		* @param {string} name
		* @private
		*/
		missingArgument(name) {
			const message = `error: missing required argument '${name}'`;
			this.error(message, { code: "commander.missingArgument" });
		}
		/**
		* `Option` is missing an argument.
		*
		* @param {Option} option
		* @private
		*/
		optionMissingArgument(option) {
			const message = `error: option '${option.flags}' argument missing`;
			this.error(message, { code: "commander.optionMissingArgument" });
		}
		/**
		* `Option` does not have a value, and is a mandatory option.
		*
		* @param {Option} option
		* @private
		*/
		missingMandatoryOptionValue(option) {
			const message = `error: required option '${option.flags}' not specified`;
			this.error(message, { code: "commander.missingMandatoryOptionValue" });
		}
		/**
		* `Option` conflicts with another option.
		*
		* @param {Option} option
		* @param {Option} conflictingOption
		* @private
		*/
		_conflictingOption(option, conflictingOption) {
			const findBestOptionFromValue = (option) => {
				const optionKey = option.attributeName();
				const optionValue = this.getOptionValue(optionKey);
				const negativeOption = this.options.find((target) => target.negate && optionKey === target.attributeName());
				const positiveOption = this.options.find((target) => !target.negate && optionKey === target.attributeName());
				if (negativeOption && (negativeOption.presetArg === void 0 && optionValue === false || negativeOption.presetArg !== void 0 && optionValue === negativeOption.presetArg)) return negativeOption;
				return positiveOption || option;
			};
			const getErrorMessage = (option) => {
				const bestOption = findBestOptionFromValue(option);
				const optionKey = bestOption.attributeName();
				if (this.getOptionValueSource(optionKey) === "env") return `environment variable '${bestOption.envVar}'`;
				return `option '${bestOption.flags}'`;
			};
			const message = `error: ${getErrorMessage(option)} cannot be used with ${getErrorMessage(conflictingOption)}`;
			this.error(message, { code: "commander.conflictingOption" });
		}
		/**
		* Unknown option `flag`.
		*
		* @param {string} flag
		* @private
		*/
		unknownOption(flag) {
			if (this._allowUnknownOption) return;
			let suggestion = "";
			if (flag.startsWith("--") && this._showSuggestionAfterError) {
				let candidateFlags = [];
				let command = this;
				do {
					const moreFlags = command.createHelp().visibleOptions(command).filter((option) => option.long).map((option) => option.long);
					candidateFlags = candidateFlags.concat(moreFlags);
					command = command.parent;
				} while (command && !command._enablePositionalOptions);
				suggestion = suggestSimilar(flag, candidateFlags);
			}
			const message = `error: unknown option '${flag}'${suggestion}`;
			this.error(message, { code: "commander.unknownOption" });
		}
		/**
		* Excess arguments, more than expected.
		*
		* @param {string[]} receivedArgs
		* @private
		*/
		_excessArguments(receivedArgs) {
			if (this._allowExcessArguments) return;
			const expected = this.registeredArguments.length;
			const s = expected === 1 ? "" : "s";
			const message = `error: too many arguments${this.parent ? ` for '${this.name()}'` : ""}. Expected ${expected} argument${s} but got ${receivedArgs.length}.`;
			this.error(message, { code: "commander.excessArguments" });
		}
		/**
		* Unknown command.
		*
		* @private
		*/
		unknownCommand() {
			const unknownName = this.args[0];
			let suggestion = "";
			if (this._showSuggestionAfterError) {
				const candidateNames = [];
				this.createHelp().visibleCommands(this).forEach((command) => {
					candidateNames.push(command.name());
					if (command.alias()) candidateNames.push(command.alias());
				});
				suggestion = suggestSimilar(unknownName, candidateNames);
			}
			const message = `error: unknown command '${unknownName}'${suggestion}`;
			this.error(message, { code: "commander.unknownCommand" });
		}
		/**
		* Get or set the program version.
		*
		* This method auto-registers the "-V, --version" option which will print the version number.
		*
		* You can optionally supply the flags and description to override the defaults.
		*
		* @param {string} [str]
		* @param {string} [flags]
		* @param {string} [description]
		* @return {(this | string | undefined)} `this` command for chaining, or version string if no arguments
		*/
		version(str, flags, description) {
			if (str === void 0) return this._version;
			this._version = str;
			flags = flags || "-V, --version";
			description = description || "output the version number";
			const versionOption = this.createOption(flags, description);
			this._versionOptionName = versionOption.attributeName();
			this._registerOption(versionOption);
			this.on("option:" + versionOption.name(), () => {
				this._outputConfiguration.writeOut(`${str}\n`);
				this._exit(0, "commander.version", str);
			});
			return this;
		}
		/**
		* Set the description.
		*
		* @param {string} [str]
		* @param {object} [argsDescription]
		* @return {(string|Command)}
		*/
		description(str, argsDescription) {
			if (str === void 0 && argsDescription === void 0) return this._description;
			this._description = str;
			if (argsDescription) this._argsDescription = argsDescription;
			return this;
		}
		/**
		* Set the summary. Used when listed as subcommand of parent.
		*
		* @param {string} [str]
		* @return {(string|Command)}
		*/
		summary(str) {
			if (str === void 0) return this._summary;
			this._summary = str;
			return this;
		}
		/**
		* Set an alias for the command.
		*
		* You may call more than once to add multiple aliases. Only the first alias is shown in the auto-generated help.
		*
		* @param {string} [alias]
		* @return {(string|Command)}
		*/
		alias(alias) {
			if (alias === void 0) return this._aliases[0];
			/** @type {Command} */
			let command = this;
			if (this.commands.length !== 0 && this.commands[this.commands.length - 1]._executableHandler) command = this.commands[this.commands.length - 1];
			if (alias === command._name) throw new Error("Command alias can't be the same as its name");
			const matchingCommand = this.parent?._findCommand(alias);
			if (matchingCommand) {
				const existingCmd = [matchingCommand.name()].concat(matchingCommand.aliases()).join("|");
				throw new Error(`cannot add alias '${alias}' to command '${this.name()}' as already have command '${existingCmd}'`);
			}
			command._aliases.push(alias);
			return this;
		}
		/**
		* Set aliases for the command.
		*
		* Only the first alias is shown in the auto-generated help.
		*
		* @param {string[]} [aliases]
		* @return {(string[]|Command)}
		*/
		aliases(aliases) {
			if (aliases === void 0) return this._aliases;
			aliases.forEach((alias) => this.alias(alias));
			return this;
		}
		/**
		* Set / get the command usage `str`.
		*
		* @param {string} [str]
		* @return {(string|Command)}
		*/
		usage(str) {
			if (str === void 0) {
				if (this._usage) return this._usage;
				const args = this.registeredArguments.map((arg) => {
					return humanReadableArgName(arg);
				});
				return [].concat(this.options.length || this._helpOption !== null ? "[options]" : [], this.commands.length ? "[command]" : [], this.registeredArguments.length ? args : []).join(" ");
			}
			this._usage = str;
			return this;
		}
		/**
		* Get or set the name of the command.
		*
		* @param {string} [str]
		* @return {(string|Command)}
		*/
		name(str) {
			if (str === void 0) return this._name;
			this._name = str;
			return this;
		}
		/**
		* Set/get the help group heading for this subcommand in parent command's help.
		*
		* @param {string} [heading]
		* @return {Command | string}
		*/
		helpGroup(heading) {
			if (heading === void 0) return this._helpGroupHeading ?? "";
			this._helpGroupHeading = heading;
			return this;
		}
		/**
		* Set/get the default help group heading for subcommands added to this command.
		* (This does not override a group set directly on the subcommand using .helpGroup().)
		*
		* @example
		* program.commandsGroup('Development Commands:);
		* program.command('watch')...
		* program.command('lint')...
		* ...
		*
		* @param {string} [heading]
		* @returns {Command | string}
		*/
		commandsGroup(heading) {
			if (heading === void 0) return this._defaultCommandGroup ?? "";
			this._defaultCommandGroup = heading;
			return this;
		}
		/**
		* Set/get the default help group heading for options added to this command.
		* (This does not override a group set directly on the option using .helpGroup().)
		*
		* @example
		* program
		*   .optionsGroup('Development Options:')
		*   .option('-d, --debug', 'output extra debugging')
		*   .option('-p, --profile', 'output profiling information')
		*
		* @param {string} [heading]
		* @returns {Command | string}
		*/
		optionsGroup(heading) {
			if (heading === void 0) return this._defaultOptionGroup ?? "";
			this._defaultOptionGroup = heading;
			return this;
		}
		/**
		* @param {Option} option
		* @private
		*/
		_initOptionGroup(option) {
			if (this._defaultOptionGroup && !option.helpGroupHeading) option.helpGroup(this._defaultOptionGroup);
		}
		/**
		* @param {Command} cmd
		* @private
		*/
		_initCommandGroup(cmd) {
			if (this._defaultCommandGroup && !cmd.helpGroup()) cmd.helpGroup(this._defaultCommandGroup);
		}
		/**
		* Set the name of the command from script filename, such as process.argv[1],
		* or require.main.filename, or __filename.
		*
		* (Used internally and public although not documented in README.)
		*
		* @example
		* program.nameFromFilename(require.main.filename);
		*
		* @param {string} filename
		* @return {Command}
		*/
		nameFromFilename(filename) {
			this._name = path.basename(filename, path.extname(filename));
			return this;
		}
		/**
		* Get or set the directory for searching for executable subcommands of this command.
		*
		* @example
		* program.executableDir(__dirname);
		* // or
		* program.executableDir('subcommands');
		*
		* @param {string} [path]
		* @return {(string|null|Command)}
		*/
		executableDir(path) {
			if (path === void 0) return this._executableDir;
			this._executableDir = path;
			return this;
		}
		/**
		* Return program help documentation.
		*
		* @param {{ error: boolean }} [contextOptions] - pass {error:true} to wrap for stderr instead of stdout
		* @return {string}
		*/
		helpInformation(contextOptions) {
			const helper = this.createHelp();
			const context = this._getOutputContext(contextOptions);
			helper.prepareContext({
				error: context.error,
				helpWidth: context.helpWidth,
				outputHasColors: context.hasColors
			});
			const text = helper.formatHelp(this, helper);
			if (context.hasColors) return text;
			return this._outputConfiguration.stripColor(text);
		}
		/**
		* @typedef HelpContext
		* @type {object}
		* @property {boolean} error
		* @property {number} helpWidth
		* @property {boolean} hasColors
		* @property {function} write - includes stripColor if needed
		*
		* @returns {HelpContext}
		* @private
		*/
		_getOutputContext(contextOptions) {
			contextOptions = contextOptions || {};
			const error = !!contextOptions.error;
			let baseWrite;
			let hasColors;
			let helpWidth;
			if (error) {
				baseWrite = (str) => this._outputConfiguration.writeErr(str);
				hasColors = this._outputConfiguration.getErrHasColors();
				helpWidth = this._outputConfiguration.getErrHelpWidth();
			} else {
				baseWrite = (str) => this._outputConfiguration.writeOut(str);
				hasColors = this._outputConfiguration.getOutHasColors();
				helpWidth = this._outputConfiguration.getOutHelpWidth();
			}
			const write = (str) => {
				if (!hasColors) str = this._outputConfiguration.stripColor(str);
				return baseWrite(str);
			};
			return {
				error,
				write,
				hasColors,
				helpWidth
			};
		}
		/**
		* Output help information for this command.
		*
		* Outputs built-in help, and custom text added using `.addHelpText()`.
		*
		* @param {{ error: boolean } | Function} [contextOptions] - pass {error:true} to write to stderr instead of stdout
		*/
		outputHelp(contextOptions) {
			let deprecatedCallback;
			if (typeof contextOptions === "function") {
				deprecatedCallback = contextOptions;
				contextOptions = void 0;
			}
			const outputContext = this._getOutputContext(contextOptions);
			/** @type {HelpTextEventContext} */
			const eventContext = {
				error: outputContext.error,
				write: outputContext.write,
				command: this
			};
			this._getCommandAndAncestors().reverse().forEach((command) => command.emit("beforeAllHelp", eventContext));
			this.emit("beforeHelp", eventContext);
			let helpInformation = this.helpInformation({ error: outputContext.error });
			if (deprecatedCallback) {
				helpInformation = deprecatedCallback(helpInformation);
				if (typeof helpInformation !== "string" && !Buffer.isBuffer(helpInformation)) throw new Error("outputHelp callback must return a string or a Buffer");
			}
			outputContext.write(helpInformation);
			if (this._getHelpOption()?.long) this.emit(this._getHelpOption().long);
			this.emit("afterHelp", eventContext);
			this._getCommandAndAncestors().forEach((command) => command.emit("afterAllHelp", eventContext));
		}
		/**
		* You can pass in flags and a description to customise the built-in help option.
		* Pass in false to disable the built-in help option.
		*
		* @example
		* program.helpOption('-?, --help' 'show help'); // customise
		* program.helpOption(false); // disable
		*
		* @param {(string | boolean)} flags
		* @param {string} [description]
		* @return {Command} `this` command for chaining
		*/
		helpOption(flags, description) {
			if (typeof flags === "boolean") {
				if (flags) {
					if (this._helpOption === null) this._helpOption = void 0;
					if (this._defaultOptionGroup) this._initOptionGroup(this._getHelpOption());
				} else this._helpOption = null;
				return this;
			}
			this._helpOption = this.createOption(flags ?? "-h, --help", description ?? "display help for command");
			if (flags || description) this._initOptionGroup(this._helpOption);
			return this;
		}
		/**
		* Lazy create help option.
		* Returns null if has been disabled with .helpOption(false).
		*
		* @returns {(Option | null)} the help option
		* @package
		*/
		_getHelpOption() {
			if (this._helpOption === void 0) this.helpOption(void 0, void 0);
			return this._helpOption;
		}
		/**
		* Supply your own option to use for the built-in help option.
		* This is an alternative to using helpOption() to customise the flags and description etc.
		*
		* @param {Option} option
		* @return {Command} `this` command for chaining
		*/
		addHelpOption(option) {
			this._helpOption = option;
			this._initOptionGroup(option);
			return this;
		}
		/**
		* Output help information and exit.
		*
		* Outputs built-in help, and custom text added using `.addHelpText()`.
		*
		* @param {{ error: boolean }} [contextOptions] - pass {error:true} to write to stderr instead of stdout
		*/
		help(contextOptions) {
			this.outputHelp(contextOptions);
			let exitCode = Number(process.exitCode ?? 0);
			if (exitCode === 0 && contextOptions && typeof contextOptions !== "function" && contextOptions.error) exitCode = 1;
			this._exit(exitCode, "commander.help", "(outputHelp)");
		}
		/**
		* // Do a little typing to coordinate emit and listener for the help text events.
		* @typedef HelpTextEventContext
		* @type {object}
		* @property {boolean} error
		* @property {Command} command
		* @property {function} write
		*/
		/**
		* Add additional text to be displayed with the built-in help.
		*
		* Position is 'before' or 'after' to affect just this command,
		* and 'beforeAll' or 'afterAll' to affect this command and all its subcommands.
		*
		* @param {string} position - before or after built-in help
		* @param {(string | Function)} text - string to add, or a function returning a string
		* @return {Command} `this` command for chaining
		*/
		addHelpText(position, text) {
			const allowedValues = [
				"beforeAll",
				"before",
				"after",
				"afterAll"
			];
			if (!allowedValues.includes(position)) throw new Error(`Unexpected value for position to addHelpText.
Expecting one of '${allowedValues.join("', '")}'`);
			const helpEvent = `${position}Help`;
			this.on(helpEvent, (context) => {
				let helpStr;
				if (typeof text === "function") helpStr = text({
					error: context.error,
					command: context.command
				});
				else helpStr = text;
				if (helpStr) context.write(`${helpStr}\n`);
			});
			return this;
		}
		/**
		* Output help information if help flags specified
		*
		* @param {Array} args - array of options to search for help flags
		* @private
		*/
		_outputHelpIfRequested(args) {
			const helpOption = this._getHelpOption();
			if (helpOption && args.find((arg) => helpOption.is(arg))) {
				this.outputHelp();
				this._exit(0, "commander.helpDisplayed", "(outputHelp)");
			}
		}
	};
	/**
	* Scan arguments and increment port number for inspect calls (to avoid conflicts when spawning new command).
	*
	* @param {string[]} args - array of arguments from node.execArgv
	* @returns {string[]}
	* @private
	*/
	function incrementNodeInspectorPort(args) {
		return args.map((arg) => {
			if (!arg.startsWith("--inspect")) return arg;
			let debugOption;
			let debugHost = "127.0.0.1";
			let debugPort = "9229";
			let match;
			if ((match = arg.match(/^(--inspect(-brk)?)$/)) !== null) debugOption = match[1];
			else if ((match = arg.match(/^(--inspect(-brk|-port)?)=([^:]+)$/)) !== null) {
				debugOption = match[1];
				if (/^\d+$/.test(match[3])) debugPort = match[3];
				else debugHost = match[3];
			} else if ((match = arg.match(/^(--inspect(-brk|-port)?)=([^:]+):(\d+)$/)) !== null) {
				debugOption = match[1];
				debugHost = match[3];
				debugPort = match[4];
			}
			if (debugOption && debugPort !== "0") return `${debugOption}=${debugHost}:${parseInt(debugPort) + 1}`;
			return arg;
		});
	}
	/**
	* @returns {boolean | undefined}
	* @package
	*/
	function useColor() {
		if (process.env.NO_COLOR || process.env.FORCE_COLOR === "0" || process.env.FORCE_COLOR === "false") return false;
		if (process.env.FORCE_COLOR || process.env.CLICOLOR_FORCE !== void 0) return true;
	}
	exports.Command = Command;
	exports.useColor = useColor;
}));
// node_modules/commander/index.js
var require_commander = /* @__PURE__ */ __commonJSMin(((exports) => {
	const { Argument } = require_argument();
	const { Command } = require_command();
	const { CommanderError, InvalidArgumentError } = require_error();
	const { Help } = require_help();
	const { Option } = require_option();
	exports.program = new Command();
	exports.createCommand = (name) => new Command(name);
	exports.createOption = (flags, description) => new Option(flags, description);
	exports.createArgument = (name, description) => new Argument(name, description);
	/**
	* Expose classes
	*/
	exports.Command = Command;
	exports.Option = Option;
	exports.Argument = Argument;
	exports.Help = Help;
	exports.CommanderError = CommanderError;
	exports.InvalidArgumentError = InvalidArgumentError;
	exports.InvalidOptionArgumentError = InvalidArgumentError;
}));
const { program, createCommand, createArgument, createOption, CommanderError, InvalidArgumentError, InvalidOptionArgumentError, Command, Argument, Option, Help } = (/* @__PURE__ */ __toESM((/* @__PURE__ */ __commonJSMin(((exports, module) => {
	const commander = require_commander();
	exports = module.exports = {};
	exports.program = new commander.Command();
	/**
	* Expose classes. The FooT versions are just types, so return Commander original implementations!
	*/
	exports.Argument = commander.Argument;
	exports.Command = commander.Command;
	exports.CommanderError = commander.CommanderError;
	exports.Help = commander.Help;
	exports.InvalidArgumentError = commander.InvalidArgumentError;
	exports.InvalidOptionArgumentError = commander.InvalidArgumentError;
	exports.Option = commander.Option;
	exports.createCommand = (name) => new commander.Command(name);
	exports.createOption = (flags, description) => new commander.Option(flags, description);
	exports.createArgument = (name, description) => new commander.Argument(name, description);
})))(), 1)).default;
// node_modules/zod/v4/core/util.js
function jsonStringifyReplacer(_, value) {
	if (typeof value === "bigint") return value.toString();
	return value;
}
var Cached = class {
	constructor(getter) {
		this._getter = getter;
		this._value = void 0;
	}
	get value() {
		const getter = this._getter;
		if (getter !== void 0) {
			this._value = getter();
			this._getter = void 0;
		}
		return this._value;
	}
};
function cached(getter) {
	return new Cached(getter);
}
function cleanRegex(source) {
	const start = source.startsWith("^") ? 1 : 0;
	const end = source.endsWith("$") ? source.length - 1 : source.length;
	return source.slice(start, end);
}
function assignProp(target, prop, value) {
	Object.defineProperty(target, prop, {
		value,
		writable: true,
		enumerable: true,
		configurable: true
	});
}
const captureStackTrace = "captureStackTrace" in Error ? Error.captureStackTrace : (..._args) => {};
function isObject(data) {
	return typeof data === "object" && data !== null && !Array.isArray(data);
}
function clone(inst, def, params) {
	const cl = new inst._zod.constr(def ?? inst._zod.def);
	if (!def || params?.parent) cl._zod.parent = inst;
	return cl;
}
function normalizeParams(_params) {
	const params = _params;
	if (!params) return {};
	if (typeof params === "string") return { error: () => params };
	if (params?.message !== void 0) {
		if (params?.error !== void 0) throw new Error("Cannot specify both `message` and `error` params");
		params.error = params.message;
	}
	delete params.message;
	if (typeof params.error === "string") return {
		...params,
		error: () => params.error
	};
	return params;
}
function optionalKeys(shape) {
	return Object.keys(shape).filter((k) => {
		return shape[k]._zod.optin !== void 0 && shape[k]._zod.optout === "optional";
	});
}
function aborted(x, startIndex = 0) {
	if (x.aborted === true) return true;
	for (let i = startIndex; i < x.issues.length; i++) if (x.issues[i]?.continue !== true) return true;
	return false;
}
function explicitlyAborted(x, startIndex = 0) {
	if (x.aborted === true) return true;
	for (let i = startIndex; i < x.issues.length; i++) if (x.issues[i]?.continue === false) return true;
	return false;
}
function prefixIssues(path, issues) {
	return issues.map((iss) => {
		var _a;
		(_a = iss).path ?? (_a.path = []);
		iss.path.unshift(path);
		return iss;
	});
}
function unwrapMessage(message) {
	return typeof message === "string" ? message : message?.message;
}
function attachSchema(issues, start, inst) {
	var _a;
	for (let i = start; i < issues.length; i++) (_a = issues[i]).schema ?? (_a.schema = inst);
}
function finalizeIssue(iss, ctx, config) {
	var _a;
	const traits = iss.inst?._zod?.traits;
	if (traits?.has("$ZodType")) {
		if (traits.has("$ZodCheck")) (_a = iss).schema ?? (_a.schema = iss.inst);
		else iss.schema = iss.inst;
	}
	const schemaError = iss.schema !== iss.inst ? iss.schema?._zod.def?.error : void 0;
	const message = iss.message ? iss.message : unwrapMessage(iss.inst?._zod.def?.error?.(iss)) ?? unwrapMessage(schemaError?.(iss)) ?? unwrapMessage(ctx?.error?.(iss)) ?? unwrapMessage(config.customError?.(iss)) ?? unwrapMessage(config.localeError?.(iss)) ?? "Invalid input";
	const full = {};
	for (const k of Object.keys(iss)) {
		if (k === "inst" || k === "schema" || k === "continue" || k === "input" || k === "__proto__") continue;
		full[k] = iss[k];
	}
	full.path ?? (full.path = []);
	full.message = message;
	if (ctx?.reportInput) full.input = iss.input;
	return full;
}
function issue(...args) {
	const [iss, input, inst] = args;
	if (typeof iss === "string") return {
		message: iss,
		code: "custom",
		input,
		inst
	};
	return { ...iss };
}
/**
* Installs a trait's members on its prototype. Each value builds that member for the instance on first read; the built value shadows the accessor as an own property, so a detached `const { parse } = schema` keeps working.
*
* Call this from a `proto` initializer, which runs once per prototype — never per instance.
*/
function members(proto, table) {
	for (const key in table) {
		const desc = Object.getOwnPropertyDescriptor(table, key);
		if (desc.get) Object.defineProperty(proto, key, {
			...desc,
			enumerable: false
		});
		else defineBound(proto, key, desc.value);
	}
}
/** Shadows a prototype member with an own value, so a getter that builds from the instance runs once. */
function own(inst, key, value, enumerable = true) {
	Object.defineProperty(inst, key, {
		configurable: true,
		writable: true,
		enumerable,
		value
	});
	return value;
}
/** Like {@link own}, for a member that was never an own data property and has to stay out of `Object.keys`. */
function hide(inst, key, value) {
	return own(inst, key, value, false);
}
function defineBound(proto, key, fn) {
	Object.defineProperty(proto, key, {
		configurable: true,
		get() {
			return this == null ? fn : own(this, key, fn.bind(this));
		},
		set(value) {
			own(this, key, value);
		}
	});
}
/** Returns the prototype to install on, or `undefined` if this group is already installed on it. */
function claim(inst, sentinel) {
	const proto = Object.getPrototypeOf(inst);
	return sentinel in proto ? void 0 : proto;
}
let installing;
let broke = false;
const breaker = {
	configurable: true,
	get() {
		broke = true;
	}
};
/**
* Installs a lazily-derived internal on the `_zod` prototype of `inst`'s
* constructor, computed from the internals object itself and cached there on
* first read. One accessor per constructor rather than one per instance.
*/
function defineLazyInternal(inst, key, compute) {
	const proto = Object.getPrototypeOf(inst._zod);
	if (key in proto && installing !== inst._zod) {
		installing = void 0;
		return;
	}
	installing = inst._zod;
	Object.defineProperty(proto, key, {
		configurable: true,
		get() {
			Object.defineProperty(this, key, breaker);
			const outer = broke;
			broke = false;
			try {
				const value = compute(this);
				if (broke) delete this[key];
				else Object.defineProperty(this, key, {
					configurable: true,
					writable: true,
					value
				});
				broke = broke || outer;
				return value;
			} catch (err) {
				delete this[key];
				broke = broke || outer;
				throw err;
			}
		},
		set(value) {
			Object.defineProperty(this, key, {
				configurable: true,
				writable: true,
				value
			});
		}
	});
}
/**
* Installs `key` on `inst`'s prototype, computed by `make` on first read and cached there as an own
* data property. One accessor per constructor rather than one per instance, because an own accessor
* puts every instance after the first into v8 dictionary mode. The key doubles as the sentinel.
*/
function installLazyProp(inst, key, make, enumerable) {
	const proto = claim(inst, key);
	if (!proto) return;
	Object.defineProperty(proto, key, {
		configurable: true,
		get() {
			const desc = {
				configurable: true,
				writable: true,
				enumerable,
				value: void 0
			};
			Object.defineProperty(this, key, desc);
			desc.value = make(this);
			Object.defineProperty(this, key, desc);
			return desc.value;
		},
		set(value) {
			Object.defineProperty(this, key, {
				configurable: true,
				writable: true,
				enumerable,
				value
			});
		}
	});
}
/** Marks the thunk `_catch` synthesises for a constant catch value. `Function.length` cannot tell that thunk from a user callback — rest and defaulted parameters both report arity 0 — and a user callback reads `ctx.error`, whose issues only finalize correctly against the caller's per-parse error map. Provenance can say what arity cannot. A plain string key rather than `Symbol.for`, whose call at module scope no bundler can prove pure — the same shape that anchored `urlCanParse` into every build. */
const CONSTANT_CATCH = "~constantCatch";
/** Wraps a constant catch value in a thunk tagged with {@link CONSTANT_CATCH}. */
function constantCatch(value) {
	const fn = () => value;
	fn[CONSTANT_CATCH] = true;
	return fn;
}
// node_modules/zod/v4/core/core.js
var _a;
const _zodDesc = {
	value: void 0,
	enumerable: false
};
let _E = "captureStackTrace" in Error ? Error : null;
function newError(Definition) {
	const E = _E;
	if (E) {
		const saved = E.stackTraceLimit;
		if (typeof saved === "number") {
			try {
				E.stackTraceLimit = 0;
			} catch {
				_E = null;
				return new Definition();
			}
			try {
				return new Definition();
			} finally {
				E.stackTraceLimit = saved;
			}
		}
	}
	return new Definition();
}
/* @__NO_SIDE_EFFECTS__ */
function $constructor(name, initializer, proto, params) {
	const zodProto = {};
	function Internals(def) {
		this.def = def;
		this.constr = _;
		this.traits = /* @__PURE__ */ new Set();
	}
	Internals.prototype = zodProto;
	const protoMembers = proto;
	const initialized = protoMembers && /* @__PURE__ */ new WeakSet();
	function init(inst, def) {
		if (!inst._zod) {
			_zodDesc.value = new Internals(def);
			try {
				Object.defineProperty(inst, "_zod", _zodDesc);
			} finally {
				_zodDesc.value = void 0;
			}
		} else if (inst._zod.traits.has(name)) return;
		inst._zod.traits.add(name);
		initializer(inst, def);
		if (initialized) {
			const own = Object.getPrototypeOf(inst);
			const ctorProto = inst._zod.constr.prototype;
			let up = own;
			while (up && up !== ctorProto) up = Object.getPrototypeOf(up);
			const target = up ?? own;
			if (!initialized.has(target)) {
				initialized.add(target);
				members(target, protoMembers);
			}
		}
		const proto = _.prototype;
		for (const k in proto) {
			if (!Object.prototype.hasOwnProperty.call(proto, k)) continue;
			if (!(k in inst)) inst[k] = proto[k].bind(inst);
		}
	}
	const Parent = params?.Parent ?? Object;
	class Definition extends Parent {}
	Object.defineProperty(Definition, "name", { value: name });
	function _(def) {
		const inst = params?.Parent ? newError(Definition) : this;
		init(inst, def);
		const deferred = inst._zod.deferred;
		if (deferred) {
			for (const fn of deferred) fn();
			inst._zod.deferred = void 0;
		}
		const pp = globalThis.__zod_globalConfig?.postProcessor;
		if (pp) pp(inst);
		return inst;
	}
	Object.defineProperty(_, "init", { value: init });
	Object.defineProperty(_, Symbol.hasInstance, { value: (inst) => {
		if (params?.Parent && inst instanceof params.Parent) return true;
		return inst?._zod?.traits?.has(name);
	} });
	Object.defineProperty(_, "name", { value: name });
	return _;
}
var $ZodAsyncError = class extends Error {
	constructor() {
		super(`Encountered Promise during synchronous parse. Use .parseAsync() instead.`);
	}
};
(_a = globalThis).__zod_globalConfig ?? (_a.__zod_globalConfig = {});
const globalConfig = globalThis.__zod_globalConfig;
function config(newConfig) {
	if (newConfig) Object.assign(globalConfig, newConfig);
	return globalConfig;
}
// node_modules/zod/v4/core/errors.js
function _getMessage() {
	const internals = this._zod;
	internals.message ?? (internals.message = JSON.stringify(internals.def, jsonStringifyReplacer, 2));
	return internals.message;
}
function _setMessage(value) {
	this._zod.message = value;
}
const _messageDesc = {
	get: _getMessage,
	set: _setMessage,
	enumerable: true,
	configurable: true
};
const _issuesDesc = {
	value: void 0,
	enumerable: false
};
const _installedToString = /* @__PURE__ */ new WeakSet([Object.prototype, Error.prototype]);
const initializer = (inst, def) => {
	inst.name = "$ZodError";
	_issuesDesc.value = def;
	Object.defineProperty(inst, "issues", _issuesDesc);
	_issuesDesc.value = void 0;
	Object.defineProperty(inst, "message", _messageDesc);
	const proto = Object.getPrototypeOf(inst);
	if (!_installedToString.has(proto)) {
		_installedToString.add(proto);
		Object.defineProperty(proto, "toString", {
			configurable: true,
			enumerable: false,
			get() {
				const value = () => this.message;
				Object.defineProperty(this, "toString", {
					value,
					configurable: true,
					writable: true
				});
				return value;
			},
			set(value) {
				Object.defineProperty(this, "toString", {
					value,
					configurable: true,
					writable: true
				});
			}
		});
	}
};
const $ZodRealError = /* @__PURE__ */ $constructor("$ZodError", initializer, void 0, { Parent: Error });
// node_modules/zod/v4/core/parse.js
const _parse = (_Err) => {
	const fn = (schema, value, _ctx, _params) => {
		const ctx = _ctx ? {
			..._ctx,
			async: false
		} : { async: false };
		const result = schema._zod.run({
			value,
			issues: []
		}, ctx);
		if (result instanceof Promise) throw new $ZodAsyncError();
		if (result.issues.length) {
			const e = new ((_params?.Err) ?? _Err)(result.issues.map((iss) => finalizeIssue(iss, ctx, config())));
			captureStackTrace(e, _params?.callee ?? fn);
			throw e;
		}
		return result.value;
	};
	return fn;
};
const parse$1 = /* @__PURE__*/ _parse($ZodRealError);
const _parseAsync = (_Err) => {
	const fn = async (schema, value, _ctx, params) => {
		const ctx = _ctx ? {
			..._ctx,
			async: true
		} : { async: true };
		let result = schema._zod.run({
			value,
			issues: []
		}, ctx);
		if (result instanceof Promise) result = await result;
		if (result.issues.length) {
			const e = new ((params?.Err) ?? _Err)(result.issues.map((iss) => finalizeIssue(iss, ctx, config())));
			captureStackTrace(e, params?.callee ?? fn);
			throw e;
		}
		return result.value;
	};
	return fn;
};
const parseAsync = /* @__PURE__*/ _parseAsync($ZodRealError);
const _safeParse = (_Err) => (schema, value, _ctx) => {
	const ctx = _ctx ? {
		..._ctx,
		async: false
	} : { async: false };
	const result = schema._zod.run({
		value,
		issues: []
	}, ctx);
	if (result instanceof Promise) throw new $ZodAsyncError();
	return result.issues.length ? failure$1(_Err, result.issues, ctx) : {
		success: true,
		data: result.value
	};
};
const safeParse = /* @__PURE__*/ _safeParse($ZodRealError);
function failure$1(Err, issues, ctx) {
	let error;
	return {
		success: false,
		get error() {
			if (!error) {
				error = new Err(issues.map((iss) => finalizeIssue(iss, ctx, config())));
				issues = void 0;
				ctx = void 0;
			}
			return error;
		},
		set error(e) {
			error = e;
			issues = void 0;
			ctx = void 0;
		}
	};
}
const _safeParseAsync = (_Err) => async (schema, value, _ctx) => {
	const ctx = _ctx ? {
		..._ctx,
		async: true
	} : { async: true };
	let result = schema._zod.run({
		value,
		issues: []
	}, ctx);
	if (result instanceof Promise) result = await result;
	return result.issues.length ? failure$1(_Err, result.issues, ctx) : {
		success: true,
		data: result.value
	};
};
const safeParseAsync = /* @__PURE__*/ _safeParseAsync($ZodRealError);
// node_modules/zod/v4/core/regexes.js
const anyString = /^[\s\S]{0,}$/;
// node_modules/zod/v4/core/checks.js
const $ZodCheck = /*@__PURE__*/ $constructor("$ZodCheck", (inst, def) => {
	var _a;
	inst._zod ?? (inst._zod = {});
	inst._zod.def = def;
	(_a = inst._zod).onattach ?? (_a.onattach = []);
});
// node_modules/zod/v4/core/versions.js
const version = {
	major: 4,
	minor: 6,
	patch: 7
};
// node_modules/zod/v4/core/schemas.js
const $ZodType = /*@__PURE__*/ $constructor("$ZodType", (inst, def) => {
	var _a;
	inst ?? (inst = {});
	inst._zod.def = def;
	inst._zod.bag = inst._zod.bag || {};
	inst._zod.version = version;
	const defChecks = inst._zod.def.checks;
	const checks = inst._zod.traits.has("$ZodCheck") ? [inst, ...defChecks ?? []] : defChecks?.length ? [...defChecks] : [];
	for (const ch of checks) for (const fn of ch._zod.onattach) fn(inst);
	if (checks.length === 0) {
		(_a = inst._zod).deferred ?? (_a.deferred = []);
		inst._zod.deferred?.push(() => {
			inst._zod.run = inst._zod.parse;
		});
	} else {
		const runChecks = (payload, checks, ctx) => {
			if (payload.memo) return payload;
			let isAborted = aborted(payload);
			let asyncResult;
			for (const ch of checks) {
				if (ch._zod.def.when) {
					if (explicitlyAborted(payload)) continue;
					if (!ch._zod.def.when(payload)) continue;
				} else if (isAborted) continue;
				const currLen = payload.issues.length;
				const _ = ch._zod.check(payload);
				if (_ instanceof Promise && ctx?.async === false) throw new $ZodAsyncError();
				if (asyncResult || _ instanceof Promise) asyncResult = (asyncResult ?? Promise.resolve()).then(async () => {
					await _;
					if (payload.issues.length === currLen) return;
					attachSchema(payload.issues, currLen, inst);
					if (!isAborted) isAborted = aborted(payload, currLen);
				});
				else {
					if (payload.issues.length === currLen) continue;
					attachSchema(payload.issues, currLen, inst);
					if (!isAborted) isAborted = aborted(payload, currLen);
				}
			}
			if (asyncResult) return asyncResult.then(() => {
				return payload;
			});
			return payload;
		};
		const handleCanaryResult = (canary, payload, ctx) => {
			if (aborted(canary)) {
				canary.aborted = true;
				return canary;
			}
			const checkResult = runChecks(payload, checks, ctx);
			if (checkResult instanceof Promise) {
				if (ctx.async === false) throw new $ZodAsyncError();
				return checkResult.then((checkResult) => inst._zod.parse(checkResult, ctx));
			}
			return inst._zod.parse(checkResult, ctx);
		};
		inst._zod.run = (payload, ctx) => {
			if (ctx.skipChecks) return inst._zod.parse(payload, ctx);
			if (ctx.direction === "backward") {
				const canary = inst._zod.parse({
					value: payload.value,
					issues: []
				}, {
					...ctx,
					skipChecks: true
				});
				if (canary instanceof Promise) return canary.then((canary) => {
					return handleCanaryResult(canary, payload, ctx);
				});
				return handleCanaryResult(canary, payload, ctx);
			}
			const result = inst._zod.parse(payload, ctx);
			if (result instanceof Promise) {
				if (ctx.async === false) throw new $ZodAsyncError();
				return result.then((result) => runChecks(result, checks, ctx));
			}
			return runChecks(result, checks, ctx);
		};
	}
}, {
	get "~standard"() {
		return hide(this, "~standard", standardProps(this));
	},
	set "~standard"(value) {
		own(this, "~standard", value);
	}
});
/** The Standard Schema surface for `inst`. Shared so wrappers can extend it without forcing it. */
const toStandardResult = (r, ctx) => r.issues.length ? { issues: r.issues.map((iss) => finalizeIssue(iss, ctx, config())) } : { value: r.value };
async function validateAsync(inst, value) {
	const ctx = { async: true };
	return toStandardResult(await inst._zod.run({
		value,
		issues: []
	}, ctx), ctx);
}
function standardProps(inst) {
	return {
		validate: (value) => {
			const ctx = { async: false };
			try {
				const r = inst._zod.run({
					value,
					issues: []
				}, ctx);
				if (!(r instanceof Promise)) return toStandardResult(r, ctx);
			} catch (_) {}
			return validateAsync(inst, value);
		},
		vendor: "zod",
		version: 1
	};
}
const $ZodString = /*@__PURE__*/ $constructor("$ZodString", (inst, def) => {
	$ZodType.init(inst, def);
	inst._zod.pattern = def.pattern ?? anyString;
	inst._zod.parse = (payload, _) => {
		if (def.coerce) try {
			payload.value = String(payload.value);
		} catch (_) {}
		if (typeof payload.value === "string") return payload;
		payload.issues.push({
			expected: "string",
			code: "invalid_type",
			input: payload.value,
			inst
		});
		return payload;
	};
});
const $ZodUnknown = /*@__PURE__*/ $constructor("$ZodUnknown", (inst, def) => {
	$ZodType.init(inst, def);
	inst._zod.parse = (payload) => payload;
});
function handlePropertyResult(result, final, key, input, optin, optout) {
	const isPresent = key in input;
	const isOptionalOut = optout === "optional";
	if (!isPresent && isOptionalOut && optin === "optional") return;
	if (result.issues.length) {
		if (optin !== void 0 && isOptionalOut && !isPresent) return;
		final.issues.push(...prefixIssues(key, result.issues));
	}
	if (!isPresent && optin === void 0) {
		if (!result.issues.length) final.issues.push({
			code: "invalid_type",
			expected: "nonoptional",
			input: void 0,
			path: [key]
		});
		return;
	}
	if (result.value === void 0) {
		if (isPresent || optin === "defaulted" && !isOptionalOut) final.value[key] = void 0;
	} else final.value[key] = result.value;
}
const NO_SYMBOL_KEYS = [];
function normalizeDef(def) {
	const keys = Object.keys(def.shape);
	const ownSymbols = Object.getOwnPropertySymbols(def.shape);
	const symbolKeys = ownSymbols.length ? ownSymbols : NO_SYMBOL_KEYS;
	const allKeys = symbolKeys.length ? [...keys, ...symbolKeys] : keys;
	for (const k of allKeys) if (!def.shape?.[k]?._zod?.traits?.has("$ZodType")) throw new Error(`Invalid element at key "${String(k)}": expected a Zod schema`);
	const okeys = optionalKeys(def.shape);
	return {
		...def,
		allKeys,
		symbolKeys,
		keySet: new Set(keys),
		numKeys: keys.length,
		optionalKeys: new Set(okeys)
	};
}
function handleCatchall(proms, input, payload, ctx, def, inst, abortEarly) {
	const unrecognized = [];
	const keySet = def.keySet;
	const _catchall = def.catchall._zod;
	const t = _catchall.def.type;
	const optin = _catchall.optin;
	const optout = _catchall.optout;
	let seen = 0;
	for (const key in input) {
		if (abortEarly && payload.issues.length !== seen) {
			if (aborted(payload, seen)) break;
			seen = payload.issues.length;
		}
		if (keySet.has(key)) continue;
		if (key === "__proto__") {
			if (t === "never") unrecognized.push(key);
			continue;
		}
		if (t === "never") {
			unrecognized.push(key);
			continue;
		}
		const r = _catchall.run({
			value: input[key],
			issues: []
		}, ctx);
		if (r instanceof Promise) proms.push(r.then((r) => handlePropertyResult(r, payload, key, input, optin, optout)));
		else handlePropertyResult(r, payload, key, input, optin, optout);
	}
	if (unrecognized.length) payload.issues.push({
		code: "unrecognized_keys",
		keys: unrecognized,
		input,
		inst,
		continue: true
	});
	if (!proms.length) return payload;
	return Promise.all(proms).then(() => {
		return payload;
	});
}
const $ZodObject = /*@__PURE__*/ $constructor("$ZodObject", (inst, def) => {
	$ZodType.init(inst, def);
	const desc = Object.getOwnPropertyDescriptor(def, "shape");
	const sh = desc?.get ? desc.get.raw : def.shape ?? {};
	if (sh) {
		const get = () => {
			const newSh = { ...sh };
			Object.defineProperty(def, "shape", { value: newSh });
			get.raw = newSh;
			return newSh;
		};
		get.raw = sh;
		Object.defineProperty(def, "shape", { get });
	}
	const _normalized = cached(() => normalizeDef(def));
	defineLazyInternal(inst, "propValues", (zod) => {
		const shape = zod.def.shape;
		const propValues = {};
		for (const key in shape) {
			const field = shape[key]._zod;
			if (field.values) {
				if (!Object.prototype.hasOwnProperty.call(propValues, key)) assignProp(propValues, key, /* @__PURE__ */ new Set());
				for (const v of field.values) propValues[key].add(v);
				if (field.optin !== void 0) propValues[key].add(void 0);
			}
		}
		return propValues;
	});
	const isObject$1 = isObject;
	const catchall = def.catchall;
	let value;
	const memo = globalConfig.memoizer;
	memo?.attach(inst);
	inst._zod.parse = (payload, ctx) => {
		value ?? (value = _normalized.value);
		const input = payload.value;
		if (!isObject$1(input)) {
			payload.issues.push({
				expected: "object",
				code: "invalid_type",
				input,
				inst
			});
			return payload;
		}
		payload.value = memo ? memo.alloc(inst, payload, {}, ctx) : {};
		const proms = [];
		const shape = value.shape;
		const abortEarly = ctx?.abortEarly;
		let seen = payload.issues.length;
		for (const key of value.allKeys) {
			if (abortEarly && payload.issues.length !== seen) {
				if (aborted(payload, seen)) break;
				seen = payload.issues.length;
			}
			if (key === "__proto__") continue;
			const el = shape[key];
			const optin = el._zod.optin;
			const optout = el._zod.optout;
			const r = el._zod.run({
				value: input[key],
				issues: []
			}, ctx);
			if (r instanceof Promise) proms.push(r.then((r) => handlePropertyResult(r, payload, key, input, optin, optout)));
			else handlePropertyResult(r, payload, key, input, optin, optout);
		}
		if (!catchall) return proms.length ? Promise.all(proms).then(() => payload) : payload;
		return handleCatchall(proms, input, payload, ctx, _normalized.value, inst, abortEarly === true);
	};
});
function handleOptionalResult(payload, result) {
	payload.value = result.issues.length ? void 0 : result.value;
	return payload;
}
const $ZodOptional = /*@__PURE__*/ $constructor("$ZodOptional", (inst, def) => {
	$ZodType.init(inst, def);
	defineLazyInternal(inst, "optin", (zod) => zod.def.innerType._zod.optin === "defaulted" ? "defaulted" : "optional");
	inst._zod.optout = "optional";
	defineLazyInternal(inst, "values", (zod) => {
		const values = zod.def.innerType._zod.values;
		return values ? /* @__PURE__ */ new Set([...values, void 0]) : void 0;
	});
	defineLazyInternal(inst, "pattern", (zod) => {
		const pattern = zod.def.innerType._zod.pattern;
		return pattern ? new RegExp(`^(${cleanRegex(pattern.source)})?$`) : void 0;
	});
	inst._zod.parse = (payload, ctx) => {
		if (payload.value === void 0) {
			if (def.innerType._zod.optin !== "defaulted") return payload;
			const result = def.innerType._zod.run({
				value: payload.value,
				issues: []
			}, ctx);
			if (result instanceof Promise) return result.then((result) => handleOptionalResult(payload, result));
			return handleOptionalResult(payload, result);
		}
		return def.innerType._zod.run(payload, ctx);
	};
});
const $ZodNullable = /*@__PURE__*/ $constructor("$ZodNullable", (inst, def) => {
	$ZodType.init(inst, def);
	defineLazyInternal(inst, "optin", (zod) => zod.def.innerType._zod.optin);
	defineLazyInternal(inst, "optout", (zod) => zod.def.innerType._zod.optout);
	defineLazyInternal(inst, "pattern", (zod) => {
		const pattern = zod.def.innerType._zod.pattern;
		return pattern ? new RegExp(`^(${cleanRegex(pattern.source)}|null)$`) : void 0;
	});
	defineLazyInternal(inst, "values", (zod) => {
		return zod.def.innerType._zod.values ? /* @__PURE__ */ new Set([...zod.def.innerType._zod.values, null]) : void 0;
	});
	inst._zod.parse = (payload, ctx) => {
		if (payload.value === null) return payload;
		return def.innerType._zod.run(payload, ctx);
	};
});
function handleCatchResult(payload, result, def, ctx) {
	if (!result.issues.length) {
		payload.value = result.value;
		if (result.memo) payload.memo = true;
		return payload;
	}
	payload.value = def.catchValue({
		...result,
		value: payload.value,
		error: { issues: result.issues.map((iss) => finalizeIssue(iss, ctx, config())) },
		input: payload.value
	});
	return payload;
}
const $ZodCatch = /*@__PURE__*/ $constructor("$ZodCatch", (inst, def) => {
	$ZodType.init(inst, def);
	defineLazyInternal(inst, "optin", (zod) => zod.def.innerType._zod.optin === "defaulted" ? "defaulted" : "optional");
	defineLazyInternal(inst, "optout", (zod) => zod.def.innerType._zod.optout);
	defineLazyInternal(inst, "values", (zod) => zod.def.innerType._zod.values);
	inst._zod.parse = (payload, ctx) => {
		if (ctx.direction === "backward") return def.innerType._zod.run(payload, ctx);
		const result = def.innerType._zod.run({
			value: payload.value,
			issues: []
		}, ctx);
		if (result instanceof Promise) return result.then((result) => handleCatchResult(payload, result, def, ctx));
		return handleCatchResult(payload, result, def, ctx);
	};
});
const $ZodCustom = /*@__PURE__*/ $constructor("$ZodCustom", (inst, def) => {
	$ZodCheck.init(inst, def);
	$ZodType.init(inst, def);
	inst._zod.parse = (payload, _) => {
		return payload;
	};
	inst._zod.check = (payload) => {
		const input = payload.value;
		const r = def.fn(input);
		if (r instanceof Promise) return r.then((r) => handleRefineResult(r, payload, input, inst));
		handleRefineResult(r, payload, input, inst);
	};
});
function handleRefineResult(result, payload, input, inst) {
	if (!result) {
		const _iss = {
			code: "custom",
			input,
			inst,
			path: [...inst._zod.def.path ?? []],
			continue: !inst._zod.def.abort
		};
		if (inst._zod.def.params) _iss.params = inst._zod.def.params;
		payload.issues.push(issue(_iss));
	}
}
// node_modules/zod/v4/core/api.js
function snapshotChecks(def) {
	if (def.checks) def.checks = [...def.checks];
	return def;
}
// @__NO_SIDE_EFFECTS__
function _string(Class, params) {
	return new Class(snapshotChecks({
		type: "string",
		...normalizeParams(params)
	}));
}
// @__NO_SIDE_EFFECTS__
function _unknown(Class) {
	return new Class({ type: "unknown" });
}
// @__NO_SIDE_EFFECTS__
function _refine(Class, fn, _params) {
	return new Class({
		type: "custom",
		check: "custom",
		fn,
		...normalizeParams(_params)
	});
}
// node_modules/zod/v4/mini/schemas.js
const ZodMiniType = /*@__PURE__*/ $constructor("ZodMiniType", (inst, def) => {
	if (!inst._zod) throw new Error("Uninitialized schema in ZodMiniType.");
	$ZodType.init(inst, def);
	inst.def = def;
	inst.type = def.type;
}, {
	get with() {
		return this.check;
	},
	set with(value) {
		own(this, "with", value);
	},
	parse(data, params) {
		return parse$1(this, data, params, { callee: this.parse });
	},
	parseAsync(data, params) {
		return parseAsync(this, data, params, { callee: this.parseAsync });
	},
	safeParse(data, params) {
		return safeParse(this, data, params);
	},
	safeParseAsync(data, params) {
		return safeParseAsync(this, data, params);
	},
	check(...checks) {
		const def = this.def;
		return this.clone({
			...def,
			checks: [...def.checks ?? [], ...checks.map((ch) => typeof ch === "function" ? { _zod: {
				check: ch,
				def: { check: "custom" },
				onattach: []
			} } : ch)]
		}, { parent: true });
	},
	clone(_def, params) {
		return clone(this, _def, params);
	},
	brand() {
		return this;
	},
	register(reg, meta) {
		reg.add(this, meta);
		return this;
	},
	apply(fn, ...args) {
		return args.length === 0 ? fn(this) : fn(this, ...args);
	}
});
const ZodMiniString = /*@__PURE__*/ $constructor("ZodMiniString", (inst, def) => {
	$ZodString.init(inst, def);
	ZodMiniType.init(inst, def);
});
// @__NO_SIDE_EFFECTS__
function string(params) {
	return /* @__PURE__ */ _string(ZodMiniString, params);
}
const ZodMiniUnknown = /*@__PURE__*/ $constructor("ZodMiniUnknown", (inst, def) => {
	$ZodUnknown.init(inst, def);
	ZodMiniType.init(inst, def);
});
// @__NO_SIDE_EFFECTS__
function unknown() {
	return /* @__PURE__ */ _unknown(ZodMiniUnknown);
}
const ZodMiniObject = /*@__PURE__*/ $constructor("ZodMiniObject", (inst, def) => {
	$ZodObject.init(inst, def);
	ZodMiniType.init(inst, def);
	installLazyProp(inst, "shape", (self) => self._zod.def.shape, false);
});
// @__NO_SIDE_EFFECTS__
function looseObject(shape, params) {
	return new ZodMiniObject({
		type: "object",
		shape,
		catchall: /* @__PURE__ */ unknown(),
		...normalizeParams(params)
	});
}
const ZodMiniOptional = /*@__PURE__*/ $constructor("ZodMiniOptional", (inst, def) => {
	$ZodOptional.init(inst, def);
	ZodMiniType.init(inst, def);
});
// @__NO_SIDE_EFFECTS__
function optional(innerType) {
	return new ZodMiniOptional({
		type: "optional",
		innerType
	});
}
const ZodMiniNullable = /*@__PURE__*/ $constructor("ZodMiniNullable", (inst, def) => {
	$ZodNullable.init(inst, def);
	ZodMiniType.init(inst, def);
});
// @__NO_SIDE_EFFECTS__
function nullable(innerType) {
	return new ZodMiniNullable({
		type: "nullable",
		innerType
	});
}
// @__NO_SIDE_EFFECTS__
function nullish(innerType) {
	return /* @__PURE__ */ optional(/* @__PURE__ */ nullable(innerType));
}
const ZodMiniCatch = /*@__PURE__*/ $constructor("ZodMiniCatch", (inst, def) => {
	$ZodCatch.init(inst, def);
	ZodMiniType.init(inst, def);
});
// @__NO_SIDE_EFFECTS__
function _catch(innerType, catchValue) {
	return new ZodMiniCatch({
		type: "catch",
		innerType,
		catchValue: typeof catchValue === "function" ? catchValue : constantCatch(catchValue)
	});
}
const ZodMiniCustom = /*@__PURE__*/ $constructor("ZodMiniCustom", (inst, def) => {
	$ZodCustom.init(inst, def);
	ZodMiniType.init(inst, def);
});
// @__NO_SIDE_EFFECTS__
function refine(fn, _params = {}) {
	return /* @__PURE__ */ _refine(ZodMiniCustom, fn, _params);
}
// src/client/schema.ts
/** The three states of interface section 3. */
const states = [
	"processing",
	"completed",
	"failed"
];
/** A field that the client can do without: a value of the wrong type reads as null. */
const optionalText = /* @__PURE__ */ _catch(/* @__PURE__ */ nullish(/* @__PURE__ */ string()), null);
/** Strict about `id` and `status`, which the client needs; further fields are kept. */
const generationSchema = /* @__PURE__ */ looseObject({
	id: (/* @__PURE__ */ string()).check(/* @__PURE__ */ refine(isUsableId)),
	status: /* @__PURE__ */ string(),
	video_url: optionalText,
	thumbnail_url: optionalText,
	created_at: optionalText,
	completed_at: optionalText,
	model: optionalText,
	prompt: optionalText
});
/** The generation that a value describes, without what has the wrong type; `undefined` when it has no usable id or no status. */
function asGeneration(value) {
	return generationSchema.safeParse(value).data;
}
/** Whether a text can be a generation's id: up to 200 characters, none of them white space or a control character. */
function isUsableId(text) {
	return /^[^\s\p{C}]{1,200}$/u.test(text);
}
/** Whether two ids are the same one: letter case makes no difference in a UUID. */
function isSameId(a, b) {
	return a === b || isUuid(a) && a.toLowerCase() === b.toLowerCase();
}
function isUuid(text) {
	return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}
/**
* Reads the status reply (interface 4.2) about `askedId`, flat or inside `data`; `undefined` when it is neither, or about another
* generation. A reply without an id counts as one about `askedId`.
*/
function readGeneration(json, askedId) {
	for (const candidate of isRecord(json) ? [json, json.data] : []) {
		if (!isRecord(candidate) || !isAbout(askedId, candidate.id)) continue;
		const generation = asGeneration({
			...candidate,
			id: askedId
		});
		if (generation) return generation;
	}
}
/** A number may have more digits than JavaScript keeps. */
function isAbout(askedId, id) {
	if (typeof id === "number") return Number(askedId) === id;
	return id === void 0 || typeof id === "string" && isSameId(id, askedId);
}
/**
* Some services deviate from the interface: a state in upper case, or a word for success that comes with an address, becomes the
* interface's word, and a relative address of the video is resolved against the base URL.
*/
function normalizeGeneration(generation, baseUrl) {
	const video_url = resolveUrl(generation.video_url, `${baseUrl}/`);
	const word = generation.status.toLowerCase();
	const state = ["succeeded", "success"].includes(word) && Boolean(video_url) ? "completed" : states.find((state) => state === word);
	return {
		...generation,
		video_url,
		status: state ?? generation.status
	};
}
function resolveUrl(url, base) {
	if (!url?.trim() || URL.canParse(url) || !URL.canParse(url, base)) return url;
	return new URL(url, base).href;
}
/** Whether a reply has `success: false`, whatever its HTTP status. */
function saysNo(json) {
	return isRecord(json) && json.success === false;
}
/** The first readable text of an error reply, in any of the shapes that services use; `undefined` when there is none. */
function errorText(json) {
	if (typeof json === "string") return json.replace(/\s+/g, " ").trim() || void 0;
	if (Array.isArray(json)) return errorText(json[0]);
	if (!isRecord(json)) return void 0;
	for (const field of [
		"error",
		"message",
		"detail",
		"msg",
		"title",
		"code",
		"errors"
	]) {
		const found = errorText(json[field]);
		if (found !== void 0) return found;
	}
}
function isRecord(value) {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}
/** Like JSON.parse, but returns `undefined` for what is no JSON, and drops `__proto__`, which could change an object's prototype. */
function parseJson(text) {
	try {
		return JSON.parse(text, (key, value) => key === "__proto__" ? void 0 : value);
	} catch {
		return;
	}
}
// src/client/content.ts
const chunkBytes$2 = 65536;
/** The hash of what an open file holds, to which more bytes can be added. Rejects with the system's error or the signal's reason. */
async function hashFile(file, signal) {
	const hash = createHash("sha256");
	const chunk = new Uint8Array(chunkBytes$2);
	for (let at = 0;;) {
		signal?.throwIfAborted();
		const { bytesRead } = await file.read(chunk, 0, chunkBytes$2, at);
		if (bytesRead === 0) return hash;
		hash.update(chunk.subarray(0, bytesRead));
		at += bytesRead;
	}
}
/** The content of an open file whose hash is known. Rejects with the system's error. */
async function readContent(file, sha256) {
	const { size, ino: inode, mtimeMs: mtime } = await file.stat();
	return {
		sha256,
		size,
		inode,
		mtime
	};
}
/** The content that a line of a journal or of a results file has; `undefined` for one of an earlier version, which has no hash. */
function parseContent(line) {
	if (!isRecord(line) || typeof line.sha256 !== "string") return void 0;
	const { sha256, size, inode, mtime } = line;
	return {
		sha256,
		size,
		inode,
		mtime
	};
}
/**
* Whether the file at a path has this content. A file of the same inode, size and time of writing is the same one; any other, such as a
* copied, restored or touched one, is read. False also for what is no file or cannot be read.
*/
async function hasContent(path, { sha256, ...known }, disk) {
	const found = await disk.stat(path).catch(() => void 0);
	if (!found?.isFile() || found.size !== known.size) return false;
	if (found.ino === known.inode && found.mtimeMs === known.mtime) return true;
	const file = await disk.open(path, "r").catch(() => void 0);
	if (!file) return false;
	try {
		return (await hashFile(file)).digest("hex") === sha256;
	} catch {
		return false;
	} finally {
		await file.close();
	}
}
// src/client/history.ts
/** The fields of each line that must be there, as text. */
const fields = {
	intent: ["attempt", "base_url"],
	accepted: ["attempt", "id"],
	refused: ["attempt", "reason"],
	unsent: ["attempt", "reason"],
	unknown: ["attempt", "reason"],
	claim: ["attempt", "holder"],
	newer: ["attempt"],
	dismissed: ["attempt"],
	completed: ["id"],
	failed: ["id", "reason"],
	lost: ["id"],
	part: ["file", "holder"],
	downloaded: ["id", "sha256"],
	saved: ["id", "file"]
};
/**
* `undefined` for a line that cannot be read, such as one that a crash has torn. A line of a newer version about an attempt is `newer`. Not
* zod: a long journal has 400,000 lines.
*/
function parseLine$1(text) {
	let line;
	try {
		line = JSON.parse(text.startsWith("﻿") ? text.slice(1) : text);
	} catch {
		return;
	}
	if (!isRecord(line) || typeof line.at !== "string") return void 0;
	if (!Object.hasOwn(fields, String(line.kind))) return readNewer(line);
	if (!fields[line.kind].every((field) => typeof line[field] === "string")) return readNewer(line);
	if (line.kind === "intent") {
		if (!URL.canParse(String(line.base_url))) return void 0;
		line.request = readRequest(line.request);
	}
	return line;
}
function readNewer({ attempt, id, at }) {
	if (typeof attempt !== "string") return void 0;
	return {
		kind: "newer",
		attempt,
		id: typeof id === "string" ? id : void 0,
		at: String(at)
	};
}
/** A prompt or a model of the wrong type reads as text, since it is only shown. */
function readRequest(request) {
	const { prompt = "", model = "", ...rest } = isRecord(request) ? request : {};
	return {
		...rest,
		prompt: asText(prompt),
		model: asText(model)
	};
}
function asText(value) {
	return typeof value === "string" ? value : JSON.stringify(value);
}
/**
* Takes the lines one by one, the newest first, and returns the entry of an attempt with its oldest line, the intent.
*/
function createFolding() {
	const later = /* @__PURE__ */ new Map();
	const remember = (name, line) => {
		const lines = later.get(name);
		if (lines) lines.push(line);
		else later.set(name, [line]);
	};
	const take = (name) => {
		const lines = later.get(name) ?? [];
		later.delete(name);
		return lines;
	};
	return (line) => {
		if (line.kind === "intent") return foldEntry(line, take(line.attempt).reverse());
		if ("attempt" in line) {
			if ("id" in line && line.id !== void 0) for (const each of take(line.id)) remember(line.attempt, each);
			remember(line.attempt, line);
		} else if (line.kind !== "part") remember(line.id, line);
	};
}
/** An attempt from its intent and the lines after that, the oldest first. */
function foldEntry(intent, lines) {
	const { attempt, at, base_url, account, request, place, no_wait, batch, row, rows_file, mcp, holder } = intent;
	const entry = {
		attempt,
		at,
		base_url,
		account,
		request,
		place,
		no_wait,
		batch,
		row,
		rows_file,
		mcp,
		holder,
		status: "starting"
	};
	for (const line of lines) fold(entry, line);
	return entry;
}
function fold(entry, line) {
	switch (line.kind) {
		case "accepted":
			entry.id = line.id;
			entry.remaining_credits = line.remaining_credits;
			entry.status = "processing";
			break;
		case "refused":
		case "unsent":
		case "unknown":
			if (entry.id !== void 0 || entry.dismissed) break;
			if (line.id !== void 0) entry.id = line.id;
			entry.status = line.kind;
			entry.reason = line.reason;
			entry.code = line.code;
			break;
		case "newer":
			if (entry.dismissed) break;
			if (line.id !== void 0) entry.id ??= line.id;
			if (entry.status !== "processing" && entry.status !== "completed") entry.status = "unknown";
			entry.reason = "a newer version of vidgen has written about it";
			break;
		case "claim":
			entry.holder = line.holder;
			break;
		case "dismissed":
			entry.dismissed = true;
			if ([
				"starting",
				"unknown",
				"lost"
			].includes(entry.status)) entry.status = "dismissed";
			break;
		case "completed":
			if (entry.status === "completed") break;
			entry.status = "completed";
			if (line.watched) entry.took_ms = new Date(line.at).getTime() - new Date(entry.at).getTime();
			break;
		case "failed":
			if (entry.status === "completed") break;
			entry.status = "failed";
			entry.reason = line.reason;
			break;
		case "lost":
			if (isOpen(entry)) entry.status = "lost";
			break;
		case "downloaded":
			entry.content = parseContent(line);
			break;
		case "saved":
			entry.file = line.file;
			entry.size = line.size;
			entry.content = parseContent(line) ?? entry.content;
	}
}
/** Whether it still runs, or its video was to be saved and is not. */
function isOpen(entry) {
	if (entry.id === void 0) return false;
	if (entry.status === "processing") return true;
	return entry.status === "completed" && entry.place !== void 0 && entry.file === void 0;
}
/**
* A request as the journal keeps it, enough to recognise it again: an address with a query or a password, or an image, may be a secret, and
* is replaced by a hash. The prompt and the model are kept as they are.
*/
function recordOf({ prompt, model, ...fields }) {
	const text = JSON.stringify(fields, (_, value) => typeof value === "string" && isSecret(value) ? hash(value) : value);
	return {
		prompt,
		model,
		...JSON.parse(text)
	};
}
function isSecret(value) {
	if (/^data:/i.test(value)) return true;
	if (!/^https?:/i.test(value) || /\s/.test(value) || !URL.canParse(value)) return false;
	const { username, password, search } = new URL(value);
	return username + password + search !== "";
}
function hash(value) {
	return `sha256:${createHash("sha256").update(value).digest("base64url")}`;
}
/** The account that a key stands for at a service, by a short hash: it tells two accounts apart, and does not give the key away. */
function accountOf(baseUrl, apiKey) {
	return createHash("sha256").update(`${new URL(baseUrl).origin} ${apiKey}`).digest("hex").slice(0, 12);
}
// src/client/attempts.ts
/** How long an interrupted run is the same run. */
const resumableMs = 432e5;
const reusableMs = 864e5;
/** An attempt has an outcome after this time: a request that was sent, and retried, takes up to 4 minutes. */
const startingMs = 3e5;
/** Whether one of the entries, newest first, may matter to `chooseAttempt`. */
function hasRecent(entries, now) {
	return datedEntries(entries, now).some(({ ageMs }) => ageMs < reusableMs);
}
/**
* Chooses from the attempts of one service, newest first, by the rules of the same run. Throws `unknown` when one of them may have been
* charged and its id never came: then another start could pay twice; and `not_found` when the service has lost the generation of one.
*/
async function chooseAttempt(entries, wanted) {
	const { request, place, earlier, now, isHeld } = wanted;
	const isOwn = (entry) => entry.batch === void 0 && (entry.mcp ?? false) === (wanted.mcp ?? false);
	const isSame = (entry) => isOwn(entry) && isDeepStrictEqual(entry.request, request);
	const same = datedEntries(entries, now).filter(({ entry }) => !entry.dismissed && isSame(entry));
	if (earlier === "reuse") return chooseReusable(same, isHeld);
	const sameRun = same.filter(({ entry }) => entry.place === place || entry.status === "completed" && isOpen(entry));
	const dismissed = [];
	for (const dated of sameRun.filter(({ ageMs }) => ageMs < resumableMs).reverse()) {
		const { entry } = dated;
		const isLost = entry.status === "lost";
		const isUnknown = await isUnclear$1(dated, isHeld);
		const isWaitedFor = isOpen(entry) && !entry.no_wait;
		const held = (isWaitedFor || entry.status === "starting") && await isHeldBy(entry, isHeld);
		const isResumable = isWaitedFor && held === false;
		if (earlier === "again") {
			if (isUnknown || isLost || isResumable) dismissed.push(entry);
		} else if (isUnknown) throw unclearError(entry);
		else if (isLost) throw lostError(entry);
		else if (held === "unsure") return {
			kind: "wait",
			entry
		};
		else if (isResumable && isStarted(entry)) return {
			kind: "resume",
			entry
		};
	}
	return {
		kind: "new",
		dismissed,
		older: sameRun.filter(({ entry, ageMs }) => ageMs >= resumableMs && isOpen(entry)).map(({ entry }) => entry).find(isStarted)
	};
}
async function chooseReusable(same, isHeld) {
	const recent = same.filter(({ ageMs }) => ageMs < reusableMs);
	const started = recent.map(({ entry }) => entry).find(isStarted);
	if (started) return {
		kind: "resume",
		entry: started
	};
	for (const dated of recent) {
		const { entry } = dated;
		if (await isUnclear$1(dated, isHeld)) throw unclearError(entry);
		if (entry.status === "lost") throw lostError(entry);
		if (entry.status === "starting") return {
			kind: "wait",
			entry
		};
	}
	return {
		kind: "new",
		dismissed: []
	};
}
/** The clocks of machines that share a journal may differ by as much. */
const clockErrorMs = 6e5;
/** No attempt is older than vidgen: a machine whose clock was not set says 1970. */
const firstTime = Date.UTC(2025, 0, 1);
/**
* The ages of entries, newest first. Where their order contradicts their times, a clock was wrong when they were written: such an attempt
* may be of this minute, and counts as new.
*/
function datedEntries(entries, now) {
	let latest = firstTime;
	return entries.toReversed().map((entry) => {
		const time = Date.parse(entry.at);
		const ageMs = now.getTime() - time;
		const isPlausible = time >= latest - clockErrorMs && ageMs >= -6e5;
		if (isPlausible) latest = Math.max(latest, time);
		return {
			entry,
			ageMs: isPlausible ? ageMs : 0
		};
	}).reverse();
}
/** Whether an attempt may have been charged although its id is unknown: its process has ended, or takes too long and may have ended. */
async function isUnclear$1({ entry, ageMs }, isHeld) {
	if (entry.status === "unknown") return true;
	if (entry.status !== "starting") return false;
	const held = await isHeldBy(entry, isHeld);
	return held === false || held === "unsure" && ageMs >= startingMs;
}
async function isHeldBy({ holder }, isHeld) {
	return holder !== void 0 && isHeld(holder);
}
/** Whether an attempt has a generation, as far as the journal knows. */
function isStarted(entry) {
	return entry.id !== void 0 && (entry.status === "processing" || entry.status === "completed");
}
function unclearError({ attempt, at, id }) {
	const named = id === void 0 ? "" : ` The answer named generation ${id}.`;
	return new VidgenError("unknown", `The same request was sent at ${at.slice(0, 16)}Z and got no usable response: it may have been charged (attempt ${attempt}).${named} Nothing was sent now.`, {
		attempt,
		id,
		hint: [`Check your account for a generation from that time; \`vidgen wait ${id ?? "<id>"}\` fetches it.`, `If there is none, run \`vidgen list --dismiss ${attempt}\` and try again. --again starts a new one in any case; it is charged.`].join("\n")
	});
}
function lostError({ at, id }) {
	return new VidgenError("not_found", `The same request was accepted at ${at.slice(0, 16)}Z as generation ${id}, which was charged and which the service no longer knows. Nothing was sent now.`, {
		id,
		hint: `\`vidgen wait ${id}\` asks for it again. --again starts a new one; it is charged.`
	});
}
// src/client/credentials.ts
/** Returns the base URL without a slash at its end. Throws `usage` unless it is https or loopback: each request carries the key. */
function checkBaseUrl(text, source) {
	const url = URL.canParse(text.trim()) ? new URL(text.trim()) : void 0;
	if (url?.username || url?.password) throw usage(`${source} contains a user name or password; save the key with \`vidgen login\` instead.`);
	if (!url || !/^https?:$/.test(url.protocol)) throw usage(`${source} is not an http(s) URL: ${text}`);
	if (/[?#]/.test(url.href)) throw usage(`${source} must not contain ? or #: ${text}`);
	if (url.protocol === "http:" && !isLoopback(url.hostname)) throw usage(`${source} must be https, because the key is sent with each request: ${text}`);
	return url.href.replace(/\/+$/, "");
}
/** Whether a URL's host is this machine itself. */
function isLoopback(hostname) {
	if (hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]") return true;
	return isIP(hostname) === 4 && hostname.startsWith("127.");
}
/** The key without the white space around it. Throws `usage` for one with characters that a header cannot hold. */
function checkApiKey(text, name = "The API key") {
	const key = text.trim();
	if (/^[\x21-\x7e]+$/.test(key)) return key;
	throw usage(key === "" ? `${name} is empty.` : `${name} contains a space or another invalid character.`);
}
/** A shorter text is no real key, and may be part of many words. */
const minSecret = 8;
/**
* Keeps secrets out of what is shown or written down: `redact` removes each one that `hide` was given and `reveal` was not, also in its
* encoded forms, in any letter case, and where `shorten` has cut it.
*/
function createRedaction() {
	const hidden = /* @__PURE__ */ new Map();
	return {
		hide(secret) {
			if (secret.length >= minSecret) hidden.set(secret, formsOf(secret));
		},
		reveal(secret) {
			hidden.delete(secret);
		},
		redact: (text) => [...hidden.values()].flat().reduce(hideForm, text)
	};
}
function hideForm(text, { pattern, lower }) {
	const parts = text.replace(pattern, "[key]").split("…");
	return parts.map((part, i) => i < parts.length - 1 ? hideBeginning(part, lower) : part).join("…");
}
/** The text without the beginning of a secret at its end. */
function hideBeginning(text, lower) {
	const end = text.slice(1 - lower.length).toLowerCase();
	for (let length = lower.length - 1; length >= minSecret; length--) if (end.endsWith(lower.slice(0, length))) return `${text.slice(0, -length)}[key]`;
	return text;
}
/** A copy of a value of JSON with every text in it redacted. */
function redactValue(value, redact) {
	const redacted = (_, inner) => {
		if (typeof inner === "string") return redact(inner);
		if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
		return Object.fromEntries(Object.entries(inner).map(([name, each]) => [redact(name), each]));
	};
	return JSON.parse(JSON.stringify(value, redacted));
}
/** A secret as it is, percent-encoded, in base64, and in JSON. */
function formsOf(secret) {
	const bytes = Buffer.from(secret);
	const encoded = [
		encodeURIComponent(secret),
		bytes.toString("base64"),
		bytes.toString("base64url")
	];
	const forms = /* @__PURE__ */ new Set([
		secret,
		...encoded,
		JSON.stringify(secret).slice(1, -1)
	]);
	const patternOf = (form) => new RegExp(form.replace(/[^\w]/g, "\\$&"), "gi");
	return [...forms].map((form) => ({
		pattern: patternOf(form),
		lower: form.toLowerCase()
	}));
}
/** The text with what may be secret left out of the addresses in it: password, query, and the bytes of a `data:` address. */
function shortenAddresses(text) {
	return text.replace(/(https?:\/\/)[^\s/?#@]*@/gi, "$1").replace(/(https?:\/\/[^\s?]*\?)\S*/gi, "$1...").replace(/\b(data:[\w/+.;=-]*,)\S*/gi, "$1...");
}
/** A long text with its end cut off. A key that is cut is recognised by the "…" after it, and by nothing else. */
function shorten$1(text, length = 60) {
	return text.length > length ? `${text.slice(0, length)}…` : text;
}
// src/client/models.ts
const models = [
	{
		id: "sora-2",
		characteristic: "flagship, cinematic quality"
	},
	{
		id: "veo-3.1",
		characteristic: "fast variant, native audio"
	},
	{
		id: "kling-2.6",
		characteristic: "high fidelity, audio support"
	},
	{
		id: "kling-1.6-elements",
		characteristic: "multi-image fusion, 2 to 4 images",
		images: {
			min: 2,
			max: 4
		}
	},
	{
		id: "wan-2.5",
		characteristic: "ultra-realistic, best value"
	},
	{
		id: "ray-3",
		characteristic: "fast creative generation"
	},
	{
		id: "seedance",
		characteristic: "fast and efficient"
	},
	{
		id: "minimax",
		characteristic: "ultra-realistic humans"
	}
];
/** The known model that was probably meant by an unknown one; `undefined` for a known one, and where none is similar. */
function guessModel(id) {
	const ids = models.map((model) => model.id);
	return ids.includes(id) ? void 0 : findSimilar(id, ids);
}
/** The candidate that was probably meant by a mistyped word; `undefined` when none is at most two letters away. */
function findSimilar(word, candidates) {
	const typed = word.toLowerCase();
	const [nearest] = candidates.map((candidate) => ({
		candidate,
		distance: editDistance(typed, candidate)
	})).sort((a, b) => a.distance - b.distance);
	return nearest && nearest.distance <= 2 ? nearest.candidate : void 0;
}
/** The Levenshtein distance: how many single letters have to be added, removed or changed. */
function editDistance(a, b) {
	let row = Array.from({ length: b.length + 1 }, (_, i) => i);
	for (let i = 1; i <= a.length; i++) {
		const next = [i];
		for (let j = 1; j <= b.length; j++) {
			const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
			next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
		}
		row = next;
	}
	return row[b.length] ?? 0;
}
// src/cli/command-line.ts
/** The words that set a flag to a value, such as `-o fox.mp4`; `long` is its long name. */
function valueWords(name, long, value) {
	return looksLikeFlag(value) ? [`${long}=${value}`] : [name, value];
}
/** Whether a value may be a flag, also a misspelt one: where it costs money this is the safe guess. `-` is stdin, and `-5` a number. */
function looksLikeFlag(value) {
	return /^-(-|[a-z])\S*$/i.test(value);
}
// src/cli/command.ts
/** The words of a command line that sets these values; flags that have their default are left out. */
function flagWords(command, values) {
	return command.options.flatMap((option) => {
		const value = values[option.attributeName()];
		const preset = option.negate ? true : option.defaultValue;
		const long = option.long ?? option.flags;
		const name = option.short === "-o" ? option.short : long;
		if (value === void 0 || value === preset) return [];
		return typeof value === "boolean" ? [name] : [value].flat().flatMap((each) => valueWords(name, long, String(each)));
	});
}
// src/io.ts
/**
* What `Io["fetch"]` rejects with, made for each request: `cause` may have ended several at once. Its message and code are those of `cause`,
* a failure of the connection or the signal's reason.
*/
var RequestError = class RequestError extends Error {
	/** Node prints an error by this name; the minifier shortens that of the class itself. */
	static name = "RequestError";
	/** Whether any byte of the request was written. */
	sent;
	constructor(cause, { sent }) {
		super(cause instanceof Error ? cause.message : String(cause), { cause });
		this.name = RequestError.name;
		this.sent = sent;
	}
};
/** Node keeps a timer's delay in 31 bits; a longer delay would fire at once. */
const maxTimerMs = 2 ** 31 - 1;
/** The real clock. No other code sets timers. */
const systemClock = {
	now: () => performance.now(),
	date: () => /* @__PURE__ */ new Date(),
	async sleep(ms, signal) {
		signal?.throwIfAborted();
		const end = performance.now() + ms;
		for (let left = ms; left > 0; left = end - performance.now()) await timer(Math.min(left, maxTimerMs), signal);
	},
	limit(ms, parent, reason) {
		const controller = new AbortController();
		const onParent = () => controller.abort(parent.reason);
		const timeout = setTimeout(() => controller.abort(reason), Math.min(ms, maxTimerMs));
		parent.addEventListener("abort", onParent, { once: true });
		if (parent.aborted) onParent();
		const clear = () => {
			clearTimeout(timeout);
			parent.removeEventListener("abort", onParent);
		};
		return {
			signal: controller.signal,
			restart: () => void timeout.refresh(),
			clear
		};
	}
};
function timer(ms, signal) {
	return new Promise((resolve, reject) => {
		if (signal?.aborted) return reject(signal.reason);
		const onAbort = () => {
			clearTimeout(timeout);
			reject(signal?.reason);
		};
		const timeout = setTimeout(() => {
			signal?.removeEventListener("abort", onAbort);
			resolve();
		}, ms);
		signal?.addEventListener("abort", onAbort, { once: true });
	});
}
({ ...systemClock }), { ...files }, process.pid;
// src/client/raw-reply.ts
/** Far more than any reply of the interface. */
const maxReplyBytes = 1048576;
// src/client/http.ts
/** Rejects as soon as the signal aborts: undici itself rejects only once it is connected. */
function unlessAborted(work, signal) {
	return new Promise((resolve, reject) => {
		const onAbort = () => reject(signal.reason);
		signal.addEventListener("abort", onAbort, { once: true });
		if (signal.aborted) onAbort();
		work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
	});
}
// src/cli/local.ts
/** The local service's credits are for tests: nobody can buy more. */
function explainLocalCredits(error) {
	if (error.code !== "credits") return error;
	const hint = "`vidgen serve --credits 1000` gives the local account more; they cost nothing.";
	return new VidgenError(error.code, error.message, {
		...error,
		hint
	});
}
// src/client/events.ts
const progressMs = 1e3;
/**
* Tells of each event whether it is news: a state only when it differs from the last one of that generation, progress once a second for
* each generation and when the video is complete, every other event always. `now` is a monotonic clock in milliseconds.
*/
function createEventFilter(now) {
	const told = /* @__PURE__ */ new Map();
	return (event) => {
		if (event.event === "ended" && event.id !== null) told.delete(event.id);
		if (event.event !== "state" && event.event !== "progress") return true;
		const last = told.get(event.id) ?? {};
		told.set(event.id, last);
		if (event.event === "state") {
			if (event.status === last.status) return false;
			last.status = event.status;
			return true;
		}
		const isComplete = event.received === event.total;
		const isDue = last.progressAt === void 0 || now() - last.progressAt >= progressMs;
		if (isComplete ? event.received === last.received : !isDue) return false;
		Object.assign(last, {
			progressAt: now(),
			received: event.received
		});
		return true;
	};
}
/** The fields of an error as a program gets them. */
function errorFieldsOf({ code, message, hint, id, httpStatus }) {
	return {
		code,
		message,
		hint: hint ?? null,
		id: id ?? null,
		http_status: httpStatus ?? null
	};
}
// src/cli/terminal/output.ts
/** "npx vidgen" when vidgen was called that way, else "vidgen": printed commands must work when they are pasted. */
function programName(env) {
	return env.npm_command === "exec" ? "npx vidgen" : "vidgen";
}
// src/cli/commands/list.ts
async function dismissAttempt(typed, journal, { io, output }) {
	const isOver = async (entry) => {
		const [dated] = datedEntries([entry], io.date());
		return entry.status === "lost" || dated !== void 0 && await isUnclear$1(dated, journal.isHeld);
	};
	const attempt = await journal.lock(async () => {
		await isOver(await findEntry(typed, journal));
		const entry = await findEntry(typed, journal);
		if (!await isOver(entry)) throw usage(`${typed} is ${entry.status}: only an attempt that is lost, or whose outcome is unknown, can be dismissed.`);
		await journal.append({
			kind: "dismissed",
			attempt: entry.attempt
		});
		return entry.attempt;
	});
	output.note(`Dismissed ${attempt}: the same request can be started again.`);
}
/** As many as `list` shows of an id at a terminal; fewer may be a slip. */
const minTyped = 8;
/**
* The entry whose id or attempt begins with the typed text, if it is the only one. Throws `not_found`, and `usage` for less than eight
* characters of an id that has more.
*/
async function findEntry(typed, journal) {
	const isNamed = (name) => name === typed || typed.length >= minTyped && name?.startsWith(typed);
	const isMeant = ({ id, attempt }) => isNamed(attempt) || isNamed(id);
	const [entry, other] = typed === "" ? [] : (await journal.entries()).filter(isMeant);
	if (!entry && typed.length < minTyped) throw usage(`"${typed}" is too short: give at least ${minTyped} characters of an id or an attempt.`);
	if (!entry) throw new VidgenError("not_found", `The journal has no attempt or generation ${typed}.`, { hint: "`vidgen list` shows them." });
	if (other) throw usage(`More than one begins with ${typed}: ${entry.attempt}, ${other.attempt}.`);
	return entry;
}
// src/lease.ts
const refreshMs = 1e4;
/** For so long this process must see a lease unchanged before it takes its holder elsewhere for ended. */
const staleMs = 6e4;
/**
* Tries to acquire the lease at a path, once. Rejects with the system's error when it cannot be written.
*
* A lease is a folder with one empty file, whose name identifies the holder. The holder changes by a single rename, which is atomic: a new
* lease is renamed to `path` together with its file, which fails when `path` exists; a stale lease is taken over by renaming its file, which
* succeeds for one process only. Hard links are not used because many mounted folders do not support them.
*/
async function tryLease(path, io, watch) {
	const name = formatName(await io.processes.self(), io.uuid());
	for (;;) {
		const { holder, stale } = await findHolder(path, io, watch);
		if (holder) return {
			kind: "held",
			holder
		};
		if (stale === void 0 ? await createLease(path, name, io) : await replaceHolder(path, {
			from: stale,
			to: name
		}, io)) return {
			kind: "acquired",
			lease: refreshUntilReleased(join(path, name), path, io)
		};
	}
}
/** How often a lease that may be stale is looked at. */
const watchMs = 1e3;
/** After this time the user is told what the command waits for. */
const quietWaitMs = 2e3;
/**
* Acquires the lease at a path, or says which process surely holds it: one elsewhere is watched for up to 60 s until it refreshes its lease
* or has ended. Rejects with the system's error when the lease cannot be written, or with the signal's reason.
*/
async function acquireLease(path, io, { signal, onNote } = {}) {
	const watch = /* @__PURE__ */ new Map();
	const start = io.now();
	for (let isTold = false;;) {
		const acquired = await tryLease(path, io, watch);
		if (acquired.kind === "acquired" || acquired.holder.isSure) return acquired;
		if (!isTold && io.now() - start > quietWaitMs) {
			onNote?.(`Process ${acquired.holder.pid} elsewhere may still hold ${path}: waiting up to 60 s to see.`);
			isTold = true;
		}
		await io.sleep(watchMs, signal);
	}
}
/** The process that holds the lease at a path, or may do so; `undefined` when none does. */
async function readHolder(path, io) {
	return (await findHolder(path, io, /* @__PURE__ */ new Map())).holder;
}
/** A holder elsewhere that was killed keeps the lock until it is stale. */
const lockLimitMs = 9e4;
/** Runs `work` while this process holds the lease at a path; waits for processes that hold it before, until `signal` aborts. */
async function withLock(path, { io, signal, onNote }, work) {
	const watch = /* @__PURE__ */ new Map();
	const start = io.now();
	let noteMs = quietWaitMs;
	for (let waitMs = 5;; waitMs = Math.min(waitMs * 2, 100)) {
		const acquired = await tryLease(path, io, watch);
		if (acquired.kind === "acquired") return await work(acquired.lease).finally(acquired.lease.release);
		const { pid } = acquired.holder;
		const waitedMs = io.now() - start;
		if (waitedMs > lockLimitMs) throw new VidgenError("output", `Timed out waiting for process ${pid} to release the lock ${path}.`, { hint: "If that process is not vidgen, or has ended, delete that folder." });
		if (waitedMs > noteMs) {
			onNote?.(`Waiting for process ${pid} to release the lock ${path}; the lock of a process that was killed elsewhere expires after 60 s.`);
			noteMs = Number.POSITIVE_INFINITY;
		}
		await io.sleep(waitMs * (.5 + io.random()), signal);
	}
}
/** Renames a new lease to `path`; false when there is one already. */
async function createLease(path, name, io) {
	const { disk } = io;
	const fresh = `${path}.${io.uuid()}`;
	await disk.mkdir(fresh, {
		recursive: true,
		mode: 448
	});
	try {
		await (await disk.open(join(fresh, name), "wx", 384)).close();
		await refresh(join(fresh, name), io);
		for (const other of await namesIn(path, io.disk)) if (!parseName(other)) await disk.rm(join(path, other), {
			recursive: true,
			force: true
		});
		await disk.rmdir(path).catch(() => {});
		await disk.rename(fresh, path);
		return true;
	} catch (error) {
		await disk.rm(fresh, {
			recursive: true,
			force: true
		});
		const code = systemCode(error);
		if (code === "ENOTEMPTY" || code === "EEXIST") return false;
		if (code === "EPERM" && await exists(path, io.disk)) return false;
		throw error;
	}
}
/** Takes over from a stale holder; false when another process did so first. */
async function replaceHolder(path, { from, to }, io) {
	try {
		await io.disk.rename(join(path, from), join(path, to));
		return true;
	} catch (error) {
		if (systemCode(error) === "ENOENT") return false;
		throw error;
	}
}
function refreshUntilReleased(file, path, io) {
	const lost = new AbortController();
	const lostError = () => new VidgenError("output", `This process no longer holds ${path}: another may have taken over.`);
	const over = new AbortController();
	const run = async () => {
		while (!over.signal.aborted && !lost.signal.aborted) {
			await nextRefresh(io, over.signal);
			if (over.signal.aborted) return;
			await refresh(file, io).catch((error) => {
				if (systemCode(error) === "ENOENT") lost.abort(lostError());
			});
		}
	};
	run();
	return {
		lost: lost.signal,
		async confirm() {
			await refresh(file, io).catch((error) => {
				throw systemCode(error) === "ENOENT" ? lostError() : error;
			});
		},
		async release() {
			over.abort();
			await io.disk.rm(file).catch(() => {});
			await io.disk.rmdir(path).catch(() => {});
		}
	};
}
/** Resolves when the next refresh is due, or when the lease is released. */
function nextRefresh(io, over) {
	const limit = io.limit(refreshMs, over, /* @__PURE__ */ new Error("time to refresh"));
	return new Promise((resolve) => {
		if (limit.signal.aborted) return resolve();
		limit.signal.addEventListener("abort", () => resolve(), { once: true });
	}).finally(limit.clear);
}
async function refresh(file, { date, disk }) {
	await disk.utimes(file, date(), date());
}
/** The process that holds the lease at a path, else the file of one that has ended, which is to be replaced. */
async function findHolder(path, io, watch) {
	const names = (await namesIn(path, io.disk)).filter(parseName).sort();
	for (const name of names) {
		const holder = await findLiving(path, name, {
			io,
			watch
		});
		if (holder) return { holder };
	}
	return names[0] === void 0 ? {} : { stale: names[0] };
}
/** The process that a file names; `undefined` when it has ended or the lease is stale. */
async function findLiving(path, name, { io, watch }) {
	const holder = parseName(name);
	if (!holder) return void 0;
	const self = await io.processes.self();
	if (holder.machine === self.machine && holder.namespace === self.namespace) {
		if (await io.processes.startOf(holder.pid) !== holder.start) return void 0;
		if (holder.start !== "-") return {
			...holder,
			isSure: true
		};
	}
	const file = join(path, name);
	const found = await io.disk.stat(file).catch(() => void 0);
	const seen = found && look(watch.get(file), found.mtimeMs, io.now());
	if (seen === void 0 || seen.unchangedMs >= staleMs) {
		watch.delete(file);
		return;
	}
	watch.set(file, seen);
	return {
		...holder,
		isSure: seen.isAlive
	};
}
function look(before, mtimeMs, now) {
	if (before === void 0) return {
		mtimeMs,
		lookedAt: now,
		unchangedMs: 0,
		isAlive: false
	};
	if (before.mtimeMs !== mtimeMs) return {
		mtimeMs,
		lookedAt: now,
		unchangedMs: 0,
		isAlive: true
	};
	const unchangedMs = before.unchangedMs + Math.min(now - before.lookedAt, refreshMs);
	return {
		...before,
		lookedAt: now,
		unchangedMs
	};
}
async function namesIn(path, disk) {
	try {
		return await disk.readdir(path);
	} catch (error) {
		if (systemCode(error) === "ENOENT") return [];
		throw error;
	}
}
async function exists(path, disk) {
	return disk.stat(path).then(() => true, () => false);
}
/** The token at the end tells two leases of one process apart. */
function formatName({ machine, namespace, pid, start }, token) {
	return [
		machine,
		namespace,
		pid,
		start,
		token
	].join("_");
}
function parseName(name) {
	const [machine, namespace, pid, start, token] = name.split("_");
	if (!machine || !namespace || !start || !token || !/^\d+$/.test(pid ?? "")) return void 0;
	return {
		machine,
		namespace,
		pid: Number(pid),
		start
	};
}
// src/client/identity.ts
/** Rejects with the system's error. */
async function identify(file, disk) {
	const path = await disk.realpath(file);
	const { ino: inode, birthtimeMs: born } = await disk.stat(path);
	return {
		path,
		inode,
		born
	};
}
function isSameFile(one, other) {
	if (one === void 0 || other === void 0) return false;
	if (one.path === other.path) return true;
	return one.inode !== void 0 && one.inode === other.inode && one.born === other.born;
}
/** The absolute path without symbolic links, also of a file that does not exist yet. */
async function findRealPath(file, disk) {
	const path = resolve(file);
	const found = await disk.realpath(path).catch(() => void 0);
	if (found !== void 0 || dirname(path) === path) return found ?? path;
	return join(await findRealPath(dirname(path), disk), basename(path));
}
// src/client/lines.ts
/**
* Appends an object as a line of JSON, with one write; resolves when it is on the disk. Several processes may append at once. Rejects with
* the system's error.
*/
async function appendLine(path, line, disk) {
	const text = `${JSON.stringify(line)}\n`;
	await disk.mkdir(dirname(path), {
		recursive: true,
		mode: 448
	});
	const file = await openLines(path, "a+", {
		disk,
		mode: 384
	});
	try {
		const { size } = await file.stat();
		const bytes = Buffer.from(await endsTorn(file, size) ? `\n${text}` : text);
		const { bytesWritten } = await file.write(bytes);
		await file.datasync();
		if (size === 0) await syncFolder(dirname(path), disk);
		if (bytesWritten < bytes.length) throw Object.assign(/* @__PURE__ */ new Error("short write"), { code: "ENOSPC" });
	} finally {
		await file.close();
	}
}
/** Puts the name of a new file on the disk too. Some systems do not offer that for a folder. */
async function syncFolder(path, disk) {
	const folder = await disk.open(path, "r").catch(() => void 0);
	await folder?.sync().catch(() => {});
	await folder?.close();
}
/**
* Opens a file of lines; `mode` is that of a new one. A pipe or a device is refused with `ESPIPE` before it is opened: that may wait for ever,
* and what is written there is gone. Rejects with the system's error.
*/
async function openLines(path, flags, { disk, mode }) {
	const found = await disk.stat(path).catch(() => void 0);
	if (found && !found.isFile() && !found.isDirectory()) throw Object.assign(/* @__PURE__ */ new Error(`${path} is no file`), { code: "ESPIPE" });
	return disk.open(path, flags, mode);
}
/** Whether a crash has left the last line without its newline. */
async function endsTorn(file, size) {
	if (size === 0) return false;
	const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
	return buffer[0] !== 10;
}
const chunkBytes$1 = 65536;
/** The lines of a file from the first to the last, a chunk at a time. Rejects with the system's error. */
async function* readLines(file) {
	/** The beginning of a line that goes on in a later chunk, and where it is in the file. */
	let rest = Buffer.alloc(0);
	let start = 0;
	for (let isEnd = false; !isEnd;) {
		const { buffer, bytesRead } = await file.read(Buffer.alloc(chunkBytes$1), 0, chunkBytes$1, start + rest.length);
		isEnd = bytesRead === 0;
		const bytes = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
		let at = 0;
		for (let end = bytes.indexOf("\n"); end !== -1; end = bytes.indexOf("\n", at)) {
			yield {
				text: bytes.toString("utf8", at, end),
				start: start + at,
				length: end - at
			};
			at = end + 1;
		}
		rest = bytes.subarray(at);
		start += at;
	}
	if (rest.length > 0) yield {
		text: rest.toString("utf8"),
		start,
		length: rest.length
	};
}
// src/client/target.ts
/** Creates a `.part` file, or takes over one that an ended process has left. */
async function claimPart(firstPath, { output, nameOf }, options, disk) {
	let partPath = firstPath;
	const part = await openPart(partPath, options, disk);
	const { ino: inode } = await part.stat();
	let isHeld = true;
	let isKept = false;
	return {
		place: output,
		part,
		partPath: () => resolve(partPath),
		async settle(naming) {
			const lasting = `${nameOf(naming)}.part`;
			if (lasting === partPath) return;
			const exists = await kindOf$1(lasting, disk) !== "none";
			if (!await options.own(resolve(lasting), {
				exists,
				id: naming.id
			})) return;
			try {
				await disk.rename(partPath, lasting);
			} catch (error) {
				throw outputError(error, nameOf(naming));
			}
			partPath = lasting;
		},
		keep() {
			isKept = true;
		},
		async commit(naming, content) {
			const path = nameOf(naming);
			try {
				await part.sync();
				if (!await hasContent(partPath, content, disk)) throw replacedError(partPath);
				const isLinked = !options.overwrite && await linkNew(partPath, path, disk);
				if (!isLinked) await disk.rename(partPath, path);
				if (!await hasContent(path, content, disk)) throw replacedError(path);
				if (isLinked) await disk.rm(partPath);
				await syncFolder(dirname(path), disk);
			} catch (error) {
				throw outputError(error, path);
			}
			isHeld = false;
			await part.close();
			return path;
		},
		async release() {
			if (!isHeld) return;
			isHeld = false;
			const found = await disk.lstat(partPath).catch(() => void 0);
			await part.close();
			if (found?.ino === inode && !isKept) await disk.rm(partPath, { force: true });
		}
	};
}
async function openPart(path, { naming, own }, disk) {
	const exists = await kindOf$1(path, disk) !== "none";
	const owned = await own(resolve(path), {
		exists,
		id: naming?.id
	});
	if (!owned) throw claimedError(path);
	if (owned.inode === void 0) return disk.open(path, "wx+", 438);
	const part = await disk.open(path, "r+");
	if ((await part.stat()).ino === owned.inode) return part;
	await part.close();
	throw claimedError(path);
}
function claimedError(path) {
	return Object.assign(/* @__PURE__ */ new Error("claimed"), {
		code: "EEXIST",
		path
	});
}
function replacedError(path) {
	const hint = `Move ${path} away, or choose another name with -o.`;
	return new VidgenError("output", `Cannot save the video: another program has replaced ${path}.`, { hint });
}
/** Throws `output` when something exists there that must not be replaced. */
async function checkFree(path, overwrite, disk) {
	const kind = await kindOf$1(path, disk);
	if (kind === "none" || kind === "file" && overwrite) return;
	if (kind === "file") throw existsError(path);
	throw new VidgenError("output", `${path} is neither a file nor a folder.`);
}
/** A link counts as its target; a dangling one counts as a file, which must not be overwritten either. */
async function kindOf$1(path, disk) {
	const found = await unlessMissing(disk.stat(path)) ?? await unlessMissing(disk.lstat(path));
	if (!found) return "none";
	if (found.isDirectory()) return "folder";
	return found.isFile() || found.isSymbolicLink() ? "file" : "other";
}
function unlessMissing(found) {
	return found.catch((error) => {
		if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return void 0;
		throw error;
	});
}
/** Renames, but never over a file that exists. Throws `output` then. */
async function renameNew(from, to, disk) {
	await (await linkNew(from, to, disk) ? disk.rm(from) : disk.rename(from, to));
}
/** Gives a file a second name, unless such a file exists: then it throws `output`. False on a file system without hard links. */
async function linkNew(from, to, disk) {
	try {
		await disk.link(from, to);
		return true;
	} catch (error) {
		if (systemCode(error) === "EEXIST") throw existsError(to);
		await checkFree(to, false, disk);
		return false;
	}
}
function existsError(path) {
	const hint = "Add --overwrite to replace it, or choose another name with -o.";
	const cause = Object.assign(/* @__PURE__ */ new Error("exists"), { code: "EEXIST" });
	return new VidgenError("output", `${path} already exists.`, {
		hint,
		cause
	});
}
/** Whether a claim failed because the file exists or is being saved. */
function isExistsError(error) {
	return error instanceof VidgenError && systemCode(error.cause) === "EEXIST";
}
/** The error for a system call that failed while saving. */
function outputError(error, path) {
	if (error instanceof VidgenError) return error;
	const hint = systemCode(error) === "EEXIST" ? "Another vidgen process may be saving it. If none is, move that .part file away." : void 0;
	const file = error instanceof Error && "path" in error ? String(error.path) : `${path}.part`;
	return new VidgenError("output", `Cannot save ${path}: ${systemReason(error, {
		EEXIST: `${basename(file)} already exists`,
		ENOENT: "the folder does not exist",
		EACCES: "permission denied"
	})}.`, {
		hint,
		cause: error
	});
}
// src/client/batch/results.ts
/** The lease of the process that runs the batch. */
function lockOf(path) {
	return `${path}.lock`;
}
/**
* The real path of a results file, under which it is held and the journal names it, whatever links lead to it. Throws `usage` for a folder,
* a pipe or a device: to read one may wait for ever.
*/
async function findResults(results, disk) {
	const path = await findRealPath(results, disk);
	const kind = await kindOf$1(path, disk).catch((cause) => {
		throw resultsError(path, cause);
	});
	if (kind === "folder" || kind === "other") throw usage(`${path} is not a file: the results cannot be written there.`);
	return path;
}
/** `redact` keeps the key out of the lines: a path, or the service's own words in an error, may hold it. */
function openResults(path, source, io) {
	let isTorn = false;
	const write = async (line) => {
		try {
			await appendLine(path, redactValue({
				at: io.date().toISOString(),
				...line
			}, io.redact), io.disk);
			isTorn = false;
		} catch (cause) {
			isTorn = true;
			throw resultsError(path, cause);
		}
	};
	const begin = () => write({ batch: source });
	return {
		path,
		begin,
		async append(line) {
			if (isTorn) await begin();
			await write({
				...line,
				file: line.file === null ? null : relative(dirname(path), resolve(line.file))
			});
		}
	};
}
/** The error for a results file that cannot be written. */
function resultsError(path, cause) {
	return new VidgenError("output", `Cannot write ${path}: ${systemReason(cause)}.`, { cause });
}
/**
* Reads a results file; one that does not exist is empty. Throws `usage` for a line that cannot be read, since a row that it tells of could
* be paid for twice. Only the last line of a run may be torn, by a crash.
*/
async function readResults(path, disk, { mustExist = false } = {}) {
	const attempts = /* @__PURE__ */ new Map();
	const names = /* @__PURE__ */ new Set();
	let source;
	let number = 0;
	let tornNumber;
	const checkTorn = () => {
		if (tornNumber !== void 0) throw unreadableError(path, tornNumber);
	};
	let file;
	try {
		file = await openLines(path, "r", { disk });
		for await (const { text } of readLines(file)) {
			number++;
			if (text.trim() === "") continue;
			const line = parseLine(text);
			if (isResultLine(line)) {
				checkTorn();
				const { credits, balance_fell } = attempts.get(line.attempt) ?? line;
				const told = {
					credits: line.credits ?? credits,
					balance_fell: line.balance_fell ?? balance_fell
				};
				const content = parseContent(line.content) ?? null;
				attempts.set(line.attempt, {
					...line,
					...told,
					file: findFile(line, path),
					content
				});
			} else if (isRecord(line) && isSource(line.batch)) {
				tornNumber = void 0;
				source = line.batch;
				if (source.results !== void 0) names.add(source.results);
			} else if (line === void 0 && isTorn(text)) tornNumber ??= number;
			else if (source === void 0 && attempts.size === 0) throw usage(`${path} is not a results file of \`vidgen batch\`.`);
			else throw unreadableError(path, number);
		}
	} catch (error) {
		if (error instanceof VidgenError) throw error;
		const isMissing = systemCode(error) === "ENOENT";
		if (mustExist && isMissing) throw usage(`There is no results file ${path}.`);
		if (!isMissing) throw new VidgenError("output", `Cannot read ${path}: ${systemReason(error)}.`, { cause: error });
	} finally {
		await file?.close();
	}
	return {
		source,
		names: [...names],
		attempts: [...attempts.values()]
	};
}
function unreadableError(path, number) {
	return usage(`${path}, line ${number}, cannot be read: a row that it tells of could be paid for twice. Nothing was sent.`, "Restore the file as it was, or use the version of vidgen that wrote the line. Delete the line only if its row was not started.");
}
const headBytes = 65536;
/** The rows file that a results file is about, by its first run; `undefined` for a file that is no results file, or cannot be read. */
async function readRowsFile(path, disk) {
	let file;
	try {
		file = await openLines(path, "r", { disk });
		const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0);
		for (const text of buffer.toString("utf8", 0, bytesRead).split("\n")) {
			const line = parseLine(text);
			if (!isRecord(line) || !isSource(line.batch)) continue;
			const { file, inode, born } = line.batch;
			return {
				path: await findRealPath(inode === void 0 ? resolve(file) : resolve(dirname(path), file), disk),
				inode,
				born
			};
		}
	} catch {} finally {
		await file?.close();
	}
}
/** How each line begins. */
const lineStart = "{\"at\":";
/** Some editors put a byte order mark at the beginning of a file. */
function parseLine(text) {
	return parseJson(text.startsWith("﻿") ? text.slice(1) : text);
}
/** Whether a crash may have left this of one line. A power failure may leave zeros, too. */
function isTorn(text) {
	const begin = text.replace(/^\ufeff/, "").replace(/[\0\r]+$/, "");
	return lineStart.startsWith(begin) || begin.lastIndexOf(lineStart) === 0;
}
/** Earlier versions, which did not write the account, wrote a path as it was typed. */
function findFile({ file, account }, path) {
	if (file === null) return null;
	return account === void 0 ? resolve(file) : resolve(dirname(path), file);
}
const statuses = [
	"starting",
	"processing",
	"completed",
	"failed",
	"lost",
	"refused",
	"unsent",
	"unknown"
];
function isResultLine(line) {
	if (!isRecord(line)) return false;
	const { row, attempt, request, model, account = "", id, file, error, credits, remaining_credits, started_at } = line;
	const { balance_fell = null } = line;
	const isText = [
		line.at,
		row,
		attempt,
		request,
		model,
		account,
		started_at
	].every((value) => typeof value === "string");
	const isRead = [id, file].every((value) => value === null || typeof value === "string");
	const isNumber = [
		credits,
		remaining_credits,
		balance_fell
	].every((value) => value === null || typeof value === "number");
	const isError = error === null || isRecord(error) && typeof error.message === "string";
	return isText && isRead && isNumber && isError && statuses.includes(String(line.status));
}
function isSource(value) {
	if (!isRecord(value)) return false;
	const { file, rows, total, shard, service, results = "" } = value;
	const isNumber = typeof rows === "number" && typeof total === "number";
	const isText = [
		file,
		service,
		results
	].every((text) => typeof text === "string");
	return isNumber && isText && (shard === null || typeof shard === "string");
}
// src/client/batch/status.ts
/** From what is least known of an attempt to what is most. */
const ranks = [
	"starting",
	"unknown",
	"unsent",
	"refused",
	"processing",
	"lost",
	"failed",
	"completed"
];
/** How much a status tells of an attempt, compared with the others. */
function rankOf(status) {
	return ranks.indexOf(status);
}
/** One line for each attempt, the one that tells most, in the order in which they were started: several files may have lines about one. */
function mergeLines(lines) {
	const merged = /* @__PURE__ */ new Map();
	const weightOf = ({ status, error }) => rankOf(status) + (error === null ? .5 : 0);
	for (const line of lines) {
		const known = merged.get(line.attempt);
		if (known === void 0 || weightOf(line) > weightOf(known)) merged.set(line.attempt, line);
	}
	return [...merged.values()].sort((a, b) => a.started_at.localeCompare(b.started_at));
}
function groupByRow(attempts) {
	const byRow = /* @__PURE__ */ new Map();
	for (const attempt of attempts) {
		const known = byRow.get(attempt.row);
		if (known) known.push(attempt);
		else byRow.set(attempt.row, [attempt]);
	}
	return byRow;
}
/**
* The attempt that tells how a row stands: one that was paid for, else one that may have been or is lost, else the last. Not the last in any
* case: the clocks of two machines, or one that is set back, may put a refused attempt after one that was paid for.
*/
function findDeciding(attempts) {
	return attempts.findLast(isPaid) ?? attempts.findLast(isUnclear) ?? attempts.at(-1);
}
/** Whether an attempt has a generation whose video is there, or is to come. */
function isPaid(attempt) {
	return ["done", "running"].includes(kindOfRow(attempt));
}
/** Whether an attempt may have been charged, or was, with nothing to follow: its row is started again only on purpose. */
function isUnclear(attempt) {
	return ["unknown", "lost"].includes(kindOfRow(attempt));
}
/** How a row stands by its deciding attempt. One that was not charged is missing: the next run starts it. */
function kindOfRow({ status, error, id }) {
	switch (status) {
		case "completed": return error === null ? "done" : "running";
		case "processing": return "running";
		case "starting":
		case "unknown": return "unknown";
		case "lost":
		case "failed": return status;
		case "refused": return id === null && isGeneral(error?.code) ? "missing" : "failed";
		case "unsent": return "missing";
	}
}
/** Whether a start was refused for a reason that is not the row's own, such as the key or the credits: the next run tries again. */
function isGeneral(code) {
	return code !== void 0 && code !== "rejected";
}
// src/client/batch/costs.ts
/** Another process may have spent, or somebody bought, credits since: an older balance tells nothing of the next cost. */
const balanceLastsMs = 36e5;
/**
* Begins with what earlier runs of the batch have cost, and with the journal's entries of the service, newest first. The balance of another
* account tells nothing.
*/
function createCosts(earlier, entries, { account, now }) {
	const isOwn = (each) => each.account === void 0 || each.account === account;
	/** By how much the balance fell for each model; a fall that comes twice is its price. */
	const falls = /* @__PURE__ */ new Map();
	const fallsOf = (model) => {
		const known = falls.get(model) ?? [];
		falls.set(model, known);
		return known;
	};
	const told = entries.filter((entry) => entry.remaining_credits !== void 0 && isOwn(entry)).reverse();
	for (const [i, { request, remaining_credits = 0 }] of told.entries()) {
		const fell = (told[i - 1]?.remaining_credits ?? 0) - remaining_credits;
		if (fell > 0) fallsOf(request.model).push(fell);
	}
	const fellOf = ({ credits, balance_fell }) => credits ?? balance_fell ?? void 0;
	for (const line of earlier) {
		const fell = fellOf(line) ?? 0;
		if (fell > 0) fallsOf(line.model).push(fell);
	}
	const medians = new Map([...falls].map(([model, known]) => [model, median(known)]));
	let spent = 0;
	let charged = 0;
	let isExact = true;
	const most = /* @__PURE__ */ new Map();
	/** How many rows of each model were charged, or may have been, without a word of what they cost. */
	const uncounted = /* @__PURE__ */ new Map();
	const dearest = (model) => most.get(model) ?? medians.get(model);
	/** What is left on the account, and when the service told so. */
	let balance;
	const count = (model, { credits, balance_fell = 0 }) => {
		const cost = credits ?? balance_fell;
		charged++;
		isExact &&= credits !== void 0;
		if (cost <= 0) return void uncounted.set(model, (uncounted.get(model) ?? 0) + 1);
		spent += cost;
		most.set(model, Math.max(most.get(model) ?? 0, cost));
	};
	const paid = earlier.filter((line) => line.id !== null || isUnclear(line));
	for (const { model, credits, balance_fell } of paid) count(model, {
		credits: credits ?? void 0,
		balance_fell: balance_fell ?? void 0
	});
	for (const line of earlier) if (line.remaining_credits !== null && isOwn(line)) balance = {
		credits: line.remaining_credits,
		at: line.started_at
	};
	const last = told.at(-1);
	if (last && (balance === void 0 || last.at > balance.at)) balance = {
		credits: last.remaining_credits ?? 0,
		at: last.at
	};
	let remaining = balance?.credits;
	/** The models of the rows that may have been charged since the balance was told. */
	let since = paid.filter(({ started_at, remaining_credits }) => remaining_credits === null && started_at >= (balance?.at ?? "")).map(({ model }) => model);
	let before = balance && now.getTime() - Date.parse(balance.at) < balanceLastsMs ? balance.credits : void 0;
	let isOpen = paid.some((line) => (fellOf(line) ?? 1) <= 0 && dearest(line.model) === void 0);
	return {
		started(model, left) {
			const fell = before === void 0 || left === void 0 ? void 0 : before - left;
			const isPrice = fell !== void 0 && fell > 0 && fallsOf(model).includes(fell);
			const cost = isPrice ? { credits: fell } : { balance_fell: fell };
			if (left === void 0 || fell !== void 0 && fell <= 0) isOpen = true;
			if (fell !== void 0 && fell > 0 && !isPrice) fallsOf(model).push(fell);
			before = left ?? before;
			remaining = left ?? remaining;
			if (left === void 0) since.push(model);
			else since = [];
			count(model, cost);
			return cost;
		},
		unknown(model) {
			since.push(model);
			count(model, {});
		},
		spent: () => [...uncounted].reduce((sum, [model, rows]) => sum + rows * (dearest(model) ?? 0), spent),
		isExact: () => isExact,
		dearest,
		typical: (model) => medians.get(model),
		remaining: () => remaining && since.reduce((left, model) => left - (dearest(model) ?? 0), remaining),
		isOpen: () => isOpen || remaining === void 0 && charged > 0
	};
}
function median(values) {
	return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
/** The error that a start would go beyond the budget; the first row of a model is started to see what it costs. */
function checkBudget(model, { maxCredits, keepCredits }, costs) {
	if (maxCredits === void 0 && keepCredits === void 0) return void 0;
	const next = costs.dearest(model) ?? 0;
	const spent = costs.spent();
	if (maxCredits !== void 0 && (spent >= maxCredits || spent + next > maxCredits)) {
		const cost = next === 0 ? "" : `, and the next generation costs up to ${next}`;
		return new VidgenError("credits", `${costs.isExact() ? "" : "Up to "}${spent} of at most ${maxCredits} credits are spent${cost}: nothing more is started.`);
	}
	if (costs.isOpen()) return new VidgenError("credits", "The service has not told what a start cost: no balance, or one that did not fall. So no budget can be kept: nothing more is started.", { hint: "Check your account, and run it without a budget." });
	const left = costs.remaining();
	if (keepCredits !== void 0 && left !== void 0 && left - Math.max(next, 1) < keepCredits) return new VidgenError("credits", `${left} credits are left, and --keep-credits is ${keepCredits}: nothing more is started.`, { hint: "The service tells the balance only at a start: if credits were bought since the last one, run once without it." });
}
// src/client/turns.ts
/** Runs what it is given one after the other, in the order of the calls. Rejects with the signal's reason when that aborts before its turn. */
function createTurns() {
	let last = Promise.resolve();
	return (work, signal) => {
		const result = (signal ? unlessAborted(last, signal) : last).then(work);
		last = Promise.allSettled([last, result]).then(() => {});
		return result;
	};
}
// src/cli/mcp/starts.ts
/**
* Returns the function that starts generations for an agent, one after the other, so that the cost of each is known. The same request
* within 24 hours gives the same generation. Throws `unknown` when it may have been charged, `credits` at the budget, or as a start does.
*/
function createStarts({ services, maxCredits, ending }, io) {
	const inTurn = createTurns();
	/** By service: credits of one tell nothing of another. */
	const costs = /* @__PURE__ */ new Map();
	async function costsAt({ client }) {
		const known = costs.get(client.baseUrl);
		if (known) return known;
		const created = createCosts([], maxCredits === void 0 ? [] : await client.entries(), {
			account: client.account,
			now: io.date()
		});
		costs.set(client.baseUrl, created);
		return created;
	}
	async function prepare(request, { again, cancelled }) {
		const session = await services.open();
		const costs = await costsAt(session);
		const overrun = checkBudget(request.model, { maxCredits }, costs);
		if (overrun && again) throw overrun;
		const signal = AbortSignal.any([cancelled, ending]);
		signal.throwIfAborted();
		const earlier = again ? "again" : "reuse";
		return {
			session,
			costs,
			overrun,
			begun: await session.client.begin(request, {
				earlier,
				mcp: true,
				noWait: true,
				signal
			})
		};
	}
	async function start(request, options) {
		const { session, costs, overrun, begun } = await prepare(request, options).catch((error) => {
			throw beforePaying(error);
		});
		const { attempt, at: started_at } = begun;
		const { model } = request;
		try {
			if (begun.kind === "resumed") {
				const { id, status, remaining_credits = null } = begun.earlier;
				return {
					id,
					status,
					model,
					resumed: true,
					started_at,
					remaining_credits,
					session
				};
			}
			const stop = overrun ?? (options.cancelled.aborted ? cancelledError() : void 0);
			if (stop) {
				await services.journal.append({
					kind: "unsent",
					attempt,
					reason: stop.message,
					code: stop.code
				});
				throw beforePaying(stop);
			}
			const end = await begun.sendUntilKnown({
				signal: ending,
				leave: io.leave
			});
			if (end.kind === "unknown") costs.unknown(model);
			if (end.kind !== "accepted") throw session.isLocal ? explainLocalCredits(end.error) : asVidgenError(end.error);
			const { generation, remaining_credits } = end.started;
			costs.started(model, remaining_credits);
			const { id, status } = generation;
			return {
				id,
				status,
				model,
				resumed: false,
				started_at,
				remaining_credits: remaining_credits ?? null,
				session
			};
		} finally {
			await begun.release();
		}
	}
	return (request, options) => inTurn(() => start(request, options));
}
function cancelledError() {
	return new VidgenError("interrupted", "The call was cancelled.");
}
// src/client/reply.ts
async function readReply(response) {
	const { status, headers } = response;
	const { text, cut } = await readText$1(response, maxReplyBytes);
	return {
		status,
		retryAfter: headers.get("Retry-After"),
		text,
		json: parseJson(text),
		cut
	};
}
/** Reads a body of at most `maxBytes`. When it breaks off or is longer, `cut` is the error, and the text so far is kept. */
async function readText$1(response, maxBytes) {
	const decoder = new TextDecoder();
	let text = "";
	let length = 0;
	try {
		for await (const chunk of response.body ?? []) {
			length += chunk.byteLength;
			if (length > maxBytes) return {
				text,
				cut: /* @__PURE__ */ new Error(`the response is longer than ${maxBytes} bytes`)
			};
			text += decoder.decode(chunk, { stream: true });
		}
	} catch (cut) {
		return {
			text,
			cut
		};
	}
	return { text: text + decoder.decode() };
}
/** The error for a reply that refuses the request, by its HTTP status and its text. */
function refusal(reply) {
	const said = describeReply(reply);
	const httpStatus = reply.status;
	if (lacksCredits(reply)) return new VidgenError("credits", `Not enough credits: ${said}`, {
		httpStatus,
		hint: "Add credits to your account, then try again; `vidgen list` shows the credits left after each start."
	});
	if (httpStatus === 401 || httpStatus === 403) return new VidgenError("auth", `The service rejected the API key: ${said}`, {
		httpStatus,
		hint: "Save a valid key with `vidgen login`; VIDGEN_API_KEY, if set, overrides it."
	});
	if (httpStatus >= 300 && httpStatus < 400) return new VidgenError("rejected", `The service redirects to another URL: ${said}`, {
		httpStatus,
		hint: "Check the base URL: vidgen does not follow redirects with a key."
	});
	return new VidgenError("rejected", `The service refused the request: ${said}`, { httpStatus });
}
/** Whether a reply says that the account is out of credits. */
function lacksCredits(reply) {
	if (reply.status === 402) return true;
	const text = [errorText(reply.json), errorCode(reply.json)].join("\n").replaceAll("_", " ");
	return shortages.some((shortage) => shortage.test(text.replace(filmCredits, "")));
}
/** A refusal may repeat a prompt about the credits of a film; a bare "no credits" counts only before "left" or at the end. */
const filmCredits = /\b(end|closing|opening|title) credits\b/gi;
const shortages = [
	/\b(insufficient|not enough|out of|lack\w*)\b.{0,20}\bcredits?\b/i,
	/\bcredits?\b.{0,30}\b(insufficient|exhausted|used up|run out|too low|lack\w*)\b/i,
	/\bno (\w+ )?credits?( left| remaining| available|\W*$)/im,
	/\binsufficient quota\b/i
];
function errorCode(json) {
	if (!isRecord(json)) return void 0;
	return typeof json.code === "string" ? json.code : errorCode(json.error);
}
/** A reply in a few words: its message, if it has a readable one, and its HTTP status. */
function describeReply(reply) {
	const said = errorText(reply.json) ?? (looksReadable(reply.text) ? errorText(reply.text) : void 0);
	return said === void 0 ? `HTTP ${reply.status}` : `${shorten(said)} (HTTP ${reply.status})`;
}
/** As `describeReply`, but with all values of a JSON reply by their names, such as `task_id 12345, state queued`. */
function describeValues(reply) {
	const values = listValues(reply.json).join(", ");
	return values === "" ? describeReply(reply) : `${shorten(values)} (HTTP ${reply.status})`;
}
/** Long values and addresses are left out: they may be secret. */
function listValues(json, name = "") {
	if (typeof json === "object" && json !== null) return Object.entries(json).flatMap(([name, value]) => listValues(value, name));
	const value = errorText(String(json)) ?? "";
	return json !== null && json !== void 0 && value.length <= 200 && !value.includes("://") ? [`${name} ${value}`.trim()] : [];
}
/** Cuts at a space: half of an echoed key would not be recognised by the redaction. */
function shorten(text) {
	return text.length <= 500 ? text : `${text.slice(0, 500).replace(/\S*$/, "")}…`;
}
function looksReadable(text) {
	const start = text.trim();
	return start !== "" && start.length <= 500 && !/^[<[{"]/.test(start);
}
/** A connection's failure in a few words. */
function describeFailure(error) {
	const message = error instanceof Error && error.message !== "" ? error.message : String(systemCode(error) ?? error);
	const code = systemCode(error);
	return code === void 0 || message.includes(code) ? message : `${message} (${code})`;
}
// src/client/api.ts
/** The service's two endpoints over `fetch`. The key goes to `baseUrl` and nowhere else: redirects are not followed. */
function createApi(options) {
	const { baseUrl, fetch } = options;
	const headers = {
		Authorization: `Bearer ${options.apiKey}`,
		Accept: "application/json",
		"Accept-Encoding": "identity"
	};
	const send = async (path, init) => readReply(await fetch(baseUrl + path, {
		...init,
		headers: {
			...headers,
			...init.headers
		}
	}));
	return {
		baseUrl,
		start: (request, attempt, signals) => send("/api/generate", {
			...signals,
			...startInit(request, attempt)
		}),
		status: (id, signal) => send(`/api/generation-status?id=${encodeURIComponent(id)}`, { signal })
	};
}
/** The start request as it is sent, the key left out. */
function startInit(request, attempt) {
	return {
		method: "POST",
		headers: {
			"Content-Type": "application/json",
			"Idempotency-Key": attempt
		},
		body: JSON.stringify(request)
	};
}
// src/client/begin.ts
/** How often a start looks again at what another process does. */
const pollMs = 250;
const waitingNote = "Another process has started the same, or saves to the same file: waiting for its id, or its end (up to 5 minutes). Until then nothing is sent.";
/**
* Begins a start: chooses between an earlier attempt and a new one, claims the place, and writes down the claim or the intent. All of that
* is under the journal's lock, so that two processes never choose the same. Sends nothing. Throws `unknown` when an earlier attempt may have
* been charged, `not_found` when the service has lost the generation of one, `output` when the place or the journal cannot be written, or
* the signal's reason.
*/
function begin(request, options, io) {
	return underLock(options, io, async (locked) => {
		const { record, placeRecord: place, earlier, mcp } = options;
		const choice = await choose({
			request: record,
			place,
			earlier,
			mcp,
			now: io.date(),
			isHeld: options.journal.isHeld
		}, options.entries);
		if (choice.kind === "wait") return void 0;
		if (choice.kind === "resume") return resume(request, choice.entry, {
			...options,
			...locked
		});
		return startAnew(request, choice, {
			...options,
			...locked
		}, io);
	});
}
/** Begins a start whatever was started before. Throws as `begin` does. */
function beginNew(request, options, io) {
	const choice = {
		dismissed: [],
		older: void 0
	};
	return underLock(options, io, (locked) => startAnew(request, choice, {
		...options,
		...locked
	}, io));
}
/** Runs `work` under the journal's lock, again and again while it returns `undefined`: then it waits for another process. */
async function underLock({ journal, place, signal, onNote }, io, work) {
	if (place === "") throw usage("The output path is empty.");
	const hold = await journal.hold();
	try {
		for (let looks = 1;; looks++) {
			const begun = await journal.lock(({ confirm }) => work({
				hold,
				confirm
			}), signal);
			if (begun) return begun;
			if (looks === 2) onNote(waitingNote);
			await io.sleep(pollMs, signal);
		}
	} catch (error) {
		await hold.release();
		throw error;
	}
}
/**
* Writes the intent of a new attempt. The lock is confirmed after that: a process that was suspended meanwhile, so that another one has the
* lock, ends here, and whoever has the lock sees the intent in the journal. Nothing is sent unless both have happened.
*/
async function startAnew(request, { dismissed, older }, options, io) {
	const { journal, claims, place, hold, overwrite, batch } = options;
	const [attempt, at] = [io.uuid(), io.date().toISOString()];
	const claiming = {
		overwrite,
		id: void 0,
		entry: void 0,
		words: request,
		resume: true,
		hold
	};
	const target = place === void 0 ? void 0 : await claims.claim(place, claiming);
	if (place !== void 0 && !target) return void 0;
	const intent = {
		kind: "intent",
		attempt,
		base_url: options.baseUrl,
		account: options.account,
		request: options.record,
		place,
		no_wait: options.noWait,
		batch: batch?.path,
		row: batch?.row,
		rows_file: batch?.rowsFile,
		mcp: options.mcp,
		holder: hold.holder
	};
	try {
		await journal.append(intent);
		await options.confirm().catch(async (error) => {
			const { message: reason, code } = asVidgenError(error);
			await journal.append({
				kind: "unsent",
				attempt,
				reason,
				code
			});
			throw error;
		});
		for (const entry of dismissed) await journal.append({
			kind: "dismissed",
			attempt: entry.attempt
		});
	} catch (error) {
		await target?.release();
		throw error;
	}
	return {
		kind: "new",
		attempt,
		at,
		older,
		target,
		release: releaseBoth(target, hold)
	};
}
/** Claims an earlier attempt, so that no other process resumes it, unless its video is saved already. */
async function resume(request, earlier, options) {
	const { journal, claims, place, overwrite, hold } = options;
	const { attempt, at, id } = earlier;
	const file = place === void 0 || overwrite ? void 0 : await claims.findSaved(earlier, place);
	if (file !== void 0) return {
		kind: "resumed",
		attempt,
		at,
		earlier,
		file,
		target: void 0,
		release: hold.release
	};
	const claiming = {
		overwrite,
		id,
		entry: earlier,
		words: request,
		resume: true,
		hold
	};
	const target = await (place === void 0 ? void 0 : claims.claim(place, claiming))?.catch((error) => {
		throw asVidgenError(error).with({ id });
	});
	if (place !== void 0 && !target) return void 0;
	try {
		if (await isHeldBy(earlier, journal.isHeld) === false) await journal.append({
			kind: "claim",
			attempt,
			holder: hold.holder
		});
		await options.confirm();
	} catch (error) {
		await target?.release();
		throw error;
	}
	return {
		kind: "resumed",
		attempt,
		at,
		earlier,
		file,
		target,
		release: releaseBoth(target, hold)
	};
}
function releaseBoth(target, hold) {
	return async () => {
		await target?.release();
		await hold.release();
	};
}
/** What a process writes just before it ends must count: chooses again when a holder has ended since the journal was read. */
async function choose(wanted, entries) {
	const ended = /* @__PURE__ */ new Set();
	const isHeld = async (holder) => {
		const held = !ended.has(holder) && await wanted.isHeld(holder);
		if (held === false) ended.add(holder);
		return held;
	};
	for (;;) {
		const before = ended.size;
		const known = await entries((part) => hasRecent(part, wanted.now));
		const [choice] = await Promise.allSettled([chooseAttempt(known, {
			...wanted,
			isHeld
		})]);
		if (ended.size > before) continue;
		if (choice.status === "rejected") throw choice.reason;
		return choice.value;
	}
}
// src/client/naming.ts
/** Such as "a-red-fox-runs-wan-2.5-1b4e28ba.mp4". Nothing in it can be a path, whatever the service sends as an id. */
function fileName({ id, prompt, model }) {
	const first = firstPart(id);
	const parts = [
		slug(prompt ?? "", 48),
		slug(model ?? "", 24),
		first
	].filter((part) => part !== "");
	return `${parts.length > 1 ? parts.join("-") : `vidgen-${first}`}.mp4`;
}
/** The first eight digits of a UUID; up to 40 letters and digits of any other id. */
function firstPart(id) {
	if (/^[0-9a-f]{8}-[0-9a-f]{4}-/i.test(id)) return id.slice(0, 8);
	return id.replace(/[^A-Za-z0-9]+/g, "").slice(0, 40) || "video";
}
/** Windows treats these names as devices, with any extension. */
const devices = /^(con|prn|aux|nul|com[\d¹²³]|lpt[\d¹²³])(?= *(\.|$))/i;
/** A word that can be a file's whole name. An empty one becomes `fallback`. */
function safeWord(word, fallback) {
	return word.replace(devices, "$1_") || fallback;
}
/** Lower-case words joined by hyphens, cut between two of them where they are longer than `maxBytes`. */
function slug(text, maxBytes) {
	const whole = text.normalize("NFC").toLowerCase().replace(/(?<![\p{L}\p{N}\p{M}])\p{M}+/gu, "").replace(/[^\p{L}\p{N}\p{M}.]+/gu, "-").replace(/\.+(?=-|$)|(?<=-|^)\.+/g, "").replace(/-+/g, "-").replace(/^-|-$/g, "");
	const cut = cutBytes(whole, maxBytes);
	return cut === whole ? whole : cut.replace(/-[^-]*$/, "");
}
/** The text, or as much of its start as has room. */
function cutBytes(text, maxBytes) {
	let left = maxBytes;
	let cut = "";
	for (const letter of text) {
		left -= byteLength(letter);
		if (left < 0) break;
		cut += letter;
	}
	return cut;
}
function byteLength(text) {
	return Buffer.byteLength(text);
}
/** Replaces the names in braces that have a value, and leaves the others. In a path the values must hold no path. */
function fillIn(template, values) {
	return template.replace(/\{([^{}]*)\}/g, (whole, name) => values.get(name) ?? whole);
}
/** The longest name of a file, in bytes, on all usual file systems. */
const maxNameBytes = 255;
const maxIdLength = 64;
/**
* Fills in `{slug}`, `{model}` and `{date}`, a day such as "2026-01-31". Throws `usage` where the name has no room for `{id}`, which is known
* only once the generation is paid for.
*/
function fillWords(place, { prompt = "", model = "" }, date) {
	const filled = fillNames(place, {
		prompt,
		model
	}, date);
	if (filled.includes("{id}") && isTooLong(filled)) throw usage("The file name in -o is too long: more than 255 bytes with {id} and .part.");
	return filled;
}
/** The same for a name of any length. */
function fillNames(place, { prompt = "", model = "" }, date) {
	if (!place.includes("{")) return place;
	const values = /* @__PURE__ */ new Map([["date", date]]);
	if (place.includes("{slug}")) values.set("slug", safeWord(slug(prompt, 48), "video"));
	if (place.includes("{model}")) values.set("model", safeWord(slug(model, 24), "model"));
	return fillIn(place, values);
}
/** Whether the file's name has no room for `.part`, and for `{id}` where that is still in it. */
function isTooLong(place) {
	return byteLength(`${basename(fillIn(place, /* @__PURE__ */ new Map([["id", "x".repeat(maxIdLength)]])))}.part`) > maxNameBytes;
}
/** Fills in `{id}`, without the characters that could make it a path. */
function fillId(place, id) {
	const word = id.replace(/[^A-Za-z0-9-]+/g, "").replace(/^-+|-+$/g, "").slice(0, maxIdLength);
	return fillIn(place, /* @__PURE__ */ new Map([["id", safeWord(word, "video")]]));
}
// src/client/place.ts
/**
* Fills in the names in braces and claims the place: `{n}` becomes the first number whose file does not exist. Throws as `claimTarget`
* does.
*/
async function claimPlace(place, options, disk) {
	for (let n = options.first;; n++) {
		const numbered = fillIn(place, /* @__PURE__ */ new Map([["n", String(n)]]));
		const filled = fillWords(numbered, options.words, options.date);
		const isNumbered = numbered !== place;
		try {
			if (isNumbered && await kindOf$1(filled, disk) !== "none") continue;
			if (dirname(numbered) !== dirname(filled)) await disk.mkdir(dirname(filled), { recursive: true });
			return {
				...await claimTarget(filled, options, disk),
				place: numbered
			};
		} catch (error) {
			if (!isNumbered || !isExistsError(error)) throw outputError(error, filled);
		}
	}
}
/**
* Claims a file, a folder (one that exists, or a name that ends in a slash), or for "-" a temporary file, which the caller streams to
* stdout. Only `{id}` is filled in. Throws `output` when the file cannot be written, or exists and `overwrite` is not set.
*/
async function claimTarget(output, options, disk) {
	try {
		if (output === "-") return await claimTemporary(options.unique, disk);
		if (output.includes("{id}")) return await claimLater(dirname(output), {
			output,
			nameOf: ({ id }) => fillId(output, id)
		}, options, disk);
		if (/[/\\]$/.test(output)) await disk.mkdir(output, { recursive: true });
		const nameOf = (naming) => join(output, fileName(naming));
		if (await kindOf$1(output, disk) === "folder") return await claimLater(output, {
			output,
			nameOf
		}, options, disk);
		return await claimFile(output, {
			output,
			nameOf: () => output
		}, options, disk);
	} catch (error) {
		throw outputError(error, output);
	}
}
/** Claims a file that is named after its generation. Until that has an id, the `.part` has a temporary name. */
async function claimLater(folder, named, options, disk) {
	if (options.naming) return claimFile(named.nameOf(options.naming), named, options, disk);
	return claimPart(join(folder, `.vidgen-${options.unique}.part`), named, options, disk);
}
async function claimFile(path, named, options, disk) {
	await checkFree(path, options.overwrite, disk);
	await disk.access(dirname(path), disk.constants.W_OK).catch((error) => {
		throw withFolderHint(error, path);
	});
	const target = await claimPart(`${path}.part`, named, options, disk);
	try {
		await checkFree(path, options.overwrite, disk);
		return target;
	} catch (error) {
		await target.release();
		throw error;
	}
}
async function claimTemporary(unique, disk) {
	const folder = join(tmpdir(), `vidgen-${unique}`);
	await disk.mkdir(folder, { mode: 448 });
	const named = {
		output: "-",
		nameOf: () => join(folder, "video.mp4")
	};
	const options = {
		overwrite: true,
		unique,
		own: async () => ({})
	};
	const target = await claimPart(join(folder, "video.part"), named, options, disk);
	return {
		...target,
		async release() {
			await target.release();
			await disk.rm(folder, {
				recursive: true,
				force: true
			});
		}
	};
}
/** Whether `output` names a folder: one that exists, or a name that ends in a slash. */
async function isFolder(output, disk) {
	return /[/\\]$/.test(output) || await kindOf$1(output, disk) === "folder";
}
/** Adds a hint for a file whose folder does not exist. */
function withFolderHint(error, path) {
	const folder = dirname(path);
	if (systemCode(error) !== "ENOENT" || folder === ".") return error;
	const command = /^[\w./][\w@%+=:,./-]*$/.test(folder) ? ` (mkdir -p ${folder})` : "";
	return outputError(error, path).with({ hint: `Create it first${command}, or end -o with / to have it created.` });
}
/** Where `output` saves the video of a generation; only `{id}` is filled in. */
async function findPlace(output, naming, disk) {
	const byId = fillId(output, naming.id);
	return await isFolder(byId, disk) ? join(byId, fileName(naming)) : byId;
}
// src/client/mp4.ts
/** The boxes that an .mp4 begins with: its type, or that of a segment, or padding, as QuickTime writes it too. */
const firstTypes = [
	"ftyp",
	"styp",
	"free",
	"skip",
	"wide"
];
/** A file has one of each (sections 4.3 and 8.2.1). */
const singleTypes = ["ftyp", "moov"];
/**
* Looks for what keeps a file from being a whole .mp4: its top-level boxes run exactly to the end of the file, with `moov` and `mdat` among
* them (ISO/IEC 14496-12, section 4.2). Where its length is not known to be right, the last box has to say its size.
*/
async function faultOfMp4(file, { isLengthKnown = true } = {}) {
	const { size } = await file.stat();
	if (size === 0) return {
		reason: "it is empty",
		mayBeVideo: false
	};
	if (await isText(file)) return {
		reason: "it is text",
		mayBeVideo: false
	};
	const end = isLengthKnown ? size : Number.POSITIVE_INFINITY;
	const seen = /* @__PURE__ */ new Set();
	for (let at = 0; at < size;) {
		const box = await readBox(file, at, end);
		if (at === 0 && !firstTypes.includes(box?.type ?? "")) return {
			reason: "it is not an .mp4",
			mayBeVideo: true
		};
		if (!box || at + box.size > size) return {
			reason: "it is incomplete or damaged",
			mayBeVideo: true
		};
		if (singleTypes.includes(box.type) && seen.has(box.type)) return {
			reason: "it contains more than one file",
			mayBeVideo: false
		};
		seen.add(box.type);
		at += box.size;
	}
	return seen.has("moov") && seen.has("mdat") ? void 0 : {
		reason: "it contains no video",
		mayBeVideo: true
	};
}
/** Whether the file is HTML, JSON or the like: the first bytes of any video have some that are no text. */
async function isText(file) {
	const { buffer, bytesRead } = await file.read(/* @__PURE__ */ new Uint8Array(512), 0, 512, 0);
	return buffer.subarray(0, bytesRead).every((byte) => byte > 8);
}
async function readBox(file, at, end) {
	const header = /* @__PURE__ */ new DataView(/* @__PURE__ */ new ArrayBuffer(16));
	const { bytesRead } = await file.read(header, 0, 16, at);
	if (bytesRead < 8) return void 0;
	const type = String.fromCharCode(...[
		4,
		5,
		6,
		7
	].map((i) => header.getUint8(i)));
	const short = header.getUint32(0);
	if (short === 0) return /^\w{4}$/.test(type) ? {
		type,
		size: end - at
	} : void 0;
	if (short >= 8) return {
		type,
		size: short
	};
	if (short !== 1 || bytesRead < 16) return void 0;
	const long = Number(header.getBigUint64(8));
	return long >= 16 ? {
		type,
		size: long
	} : void 0;
}
// src/client/retry.ts
/** Back-off with full jitter, in milliseconds: `random`, from 0 to 1, of a bound that doubles with each failure, up to 15 s. */
function backoffMs(failures, random) {
	return random * Math.min(15e3, 500 * 2 ** failures);
}
/** A longer Retry-After of a free request is cut to this: it must not use up the time to wait. */
const maxFreeWaitMs = 6e4;
/** How long to wait before a free request (a poll, a download) is repeated, in milliseconds. */
function freeRetryMs(failures, random, retryAfterMs = 0) {
	return Math.max(Math.min(retryAfterMs, maxFreeWaitMs), backoffMs(failures, random));
}
/**
* The wait that a Retry-After header asks for, in milliseconds from `now`; `undefined` when there is none or it is neither digits nor an IMF
* date (RFC 9110, section 10.2.3).
*/
function retryAfterMs(header, now) {
	if (header === null) return void 0;
	const value = header.trim();
	if (/^\d{1,9}$/.test(value)) return Number(value) * 1e3;
	if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return void 0;
	const at = Date.parse(value);
	return Number.isNaN(at) ? void 0 : Math.max(0, at - now.getTime());
}
/** HTTP statuses after which a poll or download is retried: 408, 429 and server errors. */
function isTransient(status) {
	return status === 408 || status === 429 || status >= 500;
}
/** HTTP statuses that mean "not now": the start request was not processed, so it can be sent again. */
function isNotNow(status) {
	return status === 429 || status === 421 || status === 425;
}
/**
* Whether a retry cannot change a failure to connect: the name does not exist, the certificate is not trusted, or nothing listens on this
* machine.
*/
function isFinalConnectFailure(code, baseUrl) {
	if (code === "ECONNREFUSED") return isLoopback(new URL(baseUrl).hostname);
	return /^(ENOTFOUND|ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_INVALID_|UND_ERR_INVALID_|(ERR_)?MODULE_NOT_FOUND)/.test(code ?? "");
}
// src/client/version.ts
/** What stands in If-Range. */
function validatorOf({ etag, last_modified }) {
	return etag ?? last_modified;
}
/** The headers that ask for the rest of the same version; none when the whole is to be fetched. */
function rangeHeaders(size, version) {
	const validator = validatorOf(version);
	return size > 0 && validator !== void 0 ? {
		Range: `bytes=${size}-`,
		"If-Range": validator
	} : {};
}
/** The version of a whole body. */
function readVersion(headers) {
	if (headers.get("Content-Encoding") !== null) return {};
	const length = headers.get("Content-Length") ?? "";
	return {
		...readValidator(headers),
		total: /^\d+$/.test(length) ? Number(length) : void 0
	};
}
/** A date serves only where there is no ETag at all (RFC 9110, section 13.1.5), and when it is strong. */
function readValidator(headers) {
	const etag = headers.get("ETag");
	if (etag !== null) return etag.startsWith("\"") ? { etag } : {};
	const modified = headers.get("Last-Modified") ?? "";
	return Date.parse(headers.get("Date") ?? "") - Date.parse(modified) >= 6e4 ? { last_modified: modified } : {};
}
/** Whether the rest of a video belongs to the known version. A header that is not there says nothing (RFC 9110, section 15.3.7). */
function isSameVersion(known, headers, total) {
	const etag = headers.get("ETag");
	const modified = headers.get("Last-Modified");
	return (known.total === void 0 || known.total === total) && (etag === null || etag === known.etag) && (modified === null || known.last_modified === void 0 || modified === known.last_modified);
}
// src/client/download.ts
const maxTries = 10;
/** Fresh addresses are asked for until none has worked for this long: a CDN may not know a new video yet. */
const patienceMs$1 = 6e4;
const maxRedirects = 5;
/** A request for which no byte comes for this long is aborted and retried. */
const stallMs = 3e4;
/** As many further bytes reset the count of retries. */
const progressBytes = 1e6;
/**
* Fetches a video into an open file until it is a whole .mp4. A download that broke off is resumed if a validator tells that it is the
* same video (RFC 9110, section 13.1.5), else it starts again. What was received complete twice and is not a known .mp4 is kept, with a
* note. The address gets no Authorization header. Returns the file's sha256 in hexadecimal. Throws `output` when the video cannot be fetched
* or written, with `httpStatus` when its address is of no use; or the signal's reason.
*/
async function download(url, file, options, io) {
	const { size } = await onDisk(file.stat());
	const have = {
		size,
		hash: await onDisk(hashFile(file, options.signal)),
		version: { ...options.version },
		furthest: 0,
		wasUnknownFormat: false
	};
	let from = url;
	let tries = 0;
	let triedFrom = 0;
	let expirations = 0;
	/** How many bytes the file held when its address expired, and since when it has not grown. */
	let stuck = {
		at: -1,
		since: 0
	};
	for (;;) {
		const outcome = await fetchOnce(from, file, have, {
			options,
			io
		});
		if (outcome.kind === "whole") return have.hash.digest("hex");
		if (outcome.kind === "expired") {
			const { status } = outcome;
			if (have.furthest > stuck.at) {
				stuck = {
					at: have.furthest,
					since: io.now()
				};
				expirations = 0;
			}
			if (io.now() - stuck.since >= patienceMs$1) throw new VidgenError("output", `The video URL has expired: HTTP ${status}.`, { httpStatus: status });
			from = await requestFreshUrl(status, options);
			if (++expirations === 2) options.onNote(`The video URL does not work yet (HTTP ${status}); retrying.`);
			await io.sleep(backoffMs(expirations, io.random()), options.signal);
			continue;
		}
		if (have.furthest - triedFrom >= progressBytes) {
			tries = 0;
			triedFrom = have.furthest;
		}
		if (++tries >= maxTries) throw new VidgenError("output", `Could not download the video: ${outcome.reason}.`);
		if (tries === 2) options.onNote(`Could not download the video yet (${outcome.reason}); retrying.`);
		await io.sleep(freeRetryMs(tries, io.random(), outcome.waitMs), options.signal);
	}
}
async function requestFreshUrl(status, options) {
	try {
		return await options.freshUrl(options.signal);
	} catch (error) {
		if (options.signal.aborted) throw options.signal.reason;
		const { message } = asVidgenError(error);
		throw new VidgenError("output", `The video URL has expired (HTTP ${status}), and the service gave no new one: ${message}`);
	}
}
async function fetchOnce(url, file, have, { options, io }) {
	const limit = io.limit(stallMs, options.signal, /* @__PURE__ */ new Error("no data for 30 s"));
	const done = new AbortController();
	const signal = AbortSignal.any([limit.signal, done.signal]);
	try {
		const response = await fetchMedia(url, rangeHeaders(have.size, have.version), {
			signal,
			fetch: io.fetch
		});
		const next = await prepare(response, file, have, options);
		if (next === "no video") return readFailure(response, io);
		if (next === "body") await writeBody(response, file, have, {
			options,
			onBytes: limit.restart,
			disk: io.disk
		});
		const isLengthKnown = have.version.total !== void 0;
		const fault = await onDisk(faultOfMp4(file, { isLengthKnown }));
		if (fault === void 0) return { kind: "whole" };
		const { reason } = fault;
		if (fault.mayBeVideo && isLengthKnown && response.status === 200) {
			if (have.wasUnknownFormat) {
				options.onNote(`The downloaded file looks damaged (${reason}), also the second time. It is saved anyway: check whether it plays.`);
				return { kind: "whole" };
			}
			have.wasUnknownFormat = true;
		}
		await restart(file, have);
		return {
			kind: "trouble",
			reason: `not a complete video: ${reason}`
		};
	} catch (error) {
		if (options.signal.aborted) throw options.signal.reason;
		if (error instanceof VidgenError) throw error;
		return {
			kind: "trouble",
			reason: describeFailure(error)
		};
	} finally {
		limit.clear();
		done.abort();
	}
}
/**
* Prepares the file for the body of this response: keeps what it holds, or empties it. Returns "complete" when the file holds all of the
* video already, "no video" for another status.
*/
async function prepare(response, file, have, options) {
	const { status, headers } = response;
	if ((status === 206 || status === 416) && have.size > 0) {
		const [, start, whole] = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(headers.get("Content-Range") ?? "") ?? [];
		const total = whole === "*" ? have.version.total : Number(whole);
		const isSame = isSameVersion(have.version, headers, total);
		if (isSame && status === 416 && total === have.size) return "complete";
		if (isSame && status === 206 && Number(start) === have.size) {
			have.version.total = total;
			return "body";
		}
		await restart(file, have);
		throw new Error("the video has changed on the server");
	}
	if (status !== 200) return "no video";
	await restart(file, have);
	have.version = readVersion(headers);
	await options.onVersion({ ...have.version });
	return "body";
}
async function restart(file, have) {
	await onDisk(file.truncate(0));
	have.size = 0;
	have.hash = createHash("sha256");
	have.version = {};
}
function readFailure(response, io) {
	const { status, headers } = response;
	if (isTransient(status)) {
		const waitMs = retryAfterMs(headers.get("Retry-After"), io.date());
		return {
			kind: "trouble",
			reason: `HTTP ${status}`,
			waitMs
		};
	}
	if ([
		401,
		403,
		404,
		410
	].includes(status)) return {
		kind: "expired",
		status
	};
	throw new VidgenError("output", `The video URL returned HTTP ${status}.`, { httpStatus: status });
}
/** GET that follows redirects, at most five, and from https only to https. */
async function fetchMedia(url, range, { signal, fetch }) {
	const headers = {
		"Accept-Encoding": "identity",
		...range
	};
	let at = url;
	for (let redirects = 0;; redirects++) {
		const response = await fetch(at, {
			signal,
			headers
		});
		const location = response.headers.get("Location");
		if (![
			301,
			302,
			303,
			307,
			308
		].includes(response.status) || location === null) return response;
		if (redirects === maxRedirects) throw new VidgenError("output", "The video URL redirects too many times.");
		if (!URL.canParse(location, at)) throw new VidgenError("output", "The video URL redirects to an invalid URL.");
		const next = new URL(location, at);
		if (!(next.protocol === "https:" || next.protocol === "http:" && at.startsWith("http:"))) throw new VidgenError("output", "The video URL redirects to one that is not https.");
		at = next.href;
	}
}
async function writeBody(response, file, have, writing) {
	const { options, onBytes, disk } = writing;
	const { total } = have.version;
	for await (const chunk of response.body ?? []) {
		onBytes();
		writeChunk(chunk, file, have, disk);
		options.onProgress(have.size, total);
	}
	if (total !== void 0 && have.size !== total) {
		const { size } = have;
		if (size > total) await restart(file, have);
		throw new Error(`cut off after ${size} of ${total} bytes`);
	}
}
/** Writes synchronously, so that nothing is received while the disk is busy: see `unlimitedBytes` in `http.ts`. */
function writeChunk(chunk, file, have, disk) {
	try {
		for (let done = 0; done < chunk.byteLength;) {
			const written = disk.writeSync(file.fd, chunk, done, chunk.byteLength - done, have.size);
			have.hash.update(chunk.subarray(done, done + written));
			done += written;
			have.size += written;
		}
		have.furthest = Math.max(have.furthest, have.size);
	} catch (error) {
		throw outputError(error, "the video");
	}
}
/** Turns a failure of the file system into `output`, which is not retried. */
function onDisk(work) {
	return work.catch((error) => {
		throw outputError(error, "the video");
	});
}
// src/client/save.ts
/**
* Saves the video of a generation that has completed, and returns its path and content. Throws `output`, whose hint is the video's address unless that
* is of no use, or the signal's reason.
*/
async function save({ generation, videoUrl }, options, io) {
	const { target, entry } = options;
	const { id } = generation;
	const overdue = new VidgenError("output", "Timed out before the video was saved.");
	const limit = io.limit(options.timeoutMs, options.signal, overdue);
	let address = videoUrl;
	const freshUrl = async (signal) => {
		address = void 0;
		address = await options.freshUrl(signal);
		return address;
	};
	try {
		const naming = {
			id,
			...wordsOf(entry, generation)
		};
		const keepIfResumable = (version = {}) => {
			if (validatorOf(version) !== void 0) target.keep();
		};
		keepIfResumable(options.version);
		const onVersion = async (found) => {
			await options.onVersion(found);
			keepIfResumable(found);
		};
		await target.settle(naming);
		const how = {
			...options,
			signal: limit.signal,
			onVersion,
			freshUrl
		};
		const sha256 = await download(videoUrl, target.part, how, io);
		const content = await readContent(target.part, sha256);
		await options.onWhole(content);
		return {
			file: await target.commit(naming, content),
			content
		};
	} catch (error) {
		if (options.signal.aborted) throw options.signal.reason;
		const failure = outputError(error, "the video");
		const isOfUse = address !== void 0 && failure.httpStatus === void 0;
		throw failure.with({
			id,
			hint: isOfUse ? `The video is at ${address}` : void 0
		});
	} finally {
		limit.clear();
	}
}
/** The prompt and the model that a file is named after: from the journal, else as the service reports them. */
function wordsOf(entry, generation) {
	return {
		prompt: entry?.request.prompt ?? generation?.prompt ?? void 0,
		model: entry?.request.model ?? generation?.model ?? void 0
	};
}
// src/client/claims.ts
/** How often a claim looks again at a process elsewhere that may write the same file. */
const lookMs = 1e3;
/** Claims partial files in a way that no other claim writes them too. */
function createClaims(journal, io) {
	const { disk } = io;
	/**
	* Writes down whose a partial file is from now on, and what it holds; returns that, or `undefined` for one that must be left alone, and
	* "unsure" where another look will tell.
	*/
	async function own(file, { exists, id }, claiming) {
		const { hold, resume } = claiming;
		const left = {};
		if (exists) {
			const before = hold && resume ? await journal.findLast((line) => isPart(line, file)) : void 0;
			const held = before === void 0 || await journal.isHeld(before.holder);
			if (held) return held === "unsure" ? held : void 0;
			const { ino, size } = await disk.lstat(file);
			if (before.inode === void 0 ? size > 0 : before.inode !== ino) return void 0;
			const { inode, etag, last_modified, total } = before;
			if (inode !== void 0 && before.id !== void 0 && before.id === id && validatorOf(before) !== void 0) Object.assign(left, {
				inode,
				etag,
				last_modified,
				total
			});
			else await disk.rm(file);
		}
		if (hold) await journal.append({
			kind: "part",
			file,
			id,
			holder: hold.holder,
			...left
		}).catch(() => {});
		return left;
	}
	async function claim(place, claiming) {
		if (place === "") throw usage("The output path is empty.");
		const { overwrite = false, id, entry, hold, first = 1, resume = false } = claiming;
		const words = entry ? wordsOf(entry) : claiming.words ?? {};
		const naming = id === void 0 ? void 0 : {
			id,
			...words
		};
		/** What was last taken over. */
		let owned;
		let isUnsure = false;
		const target = await claimPlace(place, {
			overwrite,
			unique: io.uuid(),
			naming,
			words,
			first,
			date: dayOf(entry, io),
			async own(file, found) {
				const taken = await own(file, found, claiming);
				isUnsure = taken === "unsure";
				owned = taken === "unsure" ? void 0 : taken;
				return owned;
			}
		}, disk).catch((error) => {
			if (isUnsure) return void 0;
			throw error;
		});
		if (!target) return void 0;
		/** Rejects when another process has taken over the file, because this one had stopped for a minute. */
		const confirm = async () => {
			await hold?.confirm().catch((cause) => {
				throw new VidgenError("output", `Another process is now writing ${target.partPath()}.`, { cause });
			});
		};
		return {
			...target,
			hold,
			version: owned?.inode === void 0 ? void 0 : owned,
			keep: resume ? target.keep : () => {},
			async settle(settled) {
				await (hold ? journal.lock(() => target.settle(settled)).catch(() => {}) : target.settle(settled));
			},
			commit: async (naming, content) => confirm().then(() => target.commit(naming, content)),
			async release() {
				await confirm().catch(target.keep);
				await target.release();
			}
		};
	}
	return {
		claim,
		async claimUnderLock(place, claiming) {
			const hold = await journal.hold().catch(() => void 0);
			let isLocked = false;
			const claimLocked = () => {
				isLocked = true;
				return claim(place, {
					...claiming,
					hold
				});
			};
			const claimUnlocked = (error) => {
				if (isLocked || claiming.signal?.aborted) throw error;
				return claim(place, {
					...claiming,
					hold: void 0
				});
			};
			try {
				for (;;) {
					const target = await journal.lock(claimLocked, claiming.signal).catch(claimUnlocked);
					if (target) return {
						...target,
						release: () => target.release().finally(() => hold?.release())
					};
					await io.sleep(lookMs, claiming.signal);
				}
			} catch (error) {
				await hold?.release();
				throw error;
			}
		},
		async findSaved({ id, ...entry }, place) {
			const { content } = entry;
			if (content === void 0 || place === "-" || place.includes("{n}")) return void 0;
			const words = wordsOf(entry);
			const file = await findPlace(fillWords(place, words, dayOf(entry, io)), {
				id,
				...words
			}, disk);
			if (!await hasContent(file, content, disk)) return void 0;
			if (entry.file === void 0) await journal.append({
				kind: "saved",
				id,
				file: resolve(file),
				...content
			}).catch(() => {});
			return file;
		}
	};
}
function isPart(line, file) {
	return line.kind === "part" && line.file === file;
}
/** The UTC day when the generation was started, today without one: `{date}` is the same in each process that saves it. */
function dayOf(entry, io) {
	return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}
// src/client/poll.ts
/** A poll that takes longer counts as trouble. */
const pollLimitMs = 3e4;
/** How long `pollUntilAnswered` retries. */
const patienceMs = 3e4;
/** Asks for a generation's status once (interface 4.2). Throws the signal's reason when that aborts. */
async function poll(api, id, clock, signal) {
	const limit = clock.limit(pollLimitMs, signal, /* @__PURE__ */ new Error("no response within 30 s"));
	try {
		return readPoll(await api.status(id, limit.signal), {
			id,
			baseUrl: api.baseUrl,
			now: clock.date()
		});
	} catch (error) {
		if (signal.aborted) throw signal.reason;
		if (error instanceof VidgenError) throw error;
		const isFinal = isFinalConnectFailure(systemCode(error), api.baseUrl);
		return {
			kind: "trouble",
			reason: describeFailure(error),
			isFinal
		};
	} finally {
		limit.clear();
	}
}
/**
* Polls until there is an answer, for 30 s at most, and returns the generation. Throws `not_found`, `auth`, `credits` or `rejected` when the
* answer says no, `network` when none came, or the signal's reason. `onNote` is called before each retry.
*/
async function pollUntilAnswered(api, id, clock, signal, onNote = () => {}) {
	const end = clock.now() + patienceMs;
	for (let failures = 0;; failures++) {
		const result = await poll(api, id, clock, signal);
		if (result.kind === "generation") return result.generation;
		if (result.kind === "refused") throw result.error;
		const waitMs = freeRetryMs(failures, clock.random(), result.retryAfterMs);
		if (result.isFinal || clock.now() + waitMs > end) throw new VidgenError("network", `No usable response from the service: ${result.reason}. Nothing was charged.`, {
			id,
			httpStatus: result.httpStatus,
			hint: doctorHint
		});
		onNote(`No usable response (${result.reason}); retrying in ${Math.ceil(waitMs / 1e3)} s.`);
		await clock.sleep(waitMs, signal);
	}
}
function readPoll(reply, { id, baseUrl, now }) {
	const { status } = reply;
	if (status === 404 && isRecord(reply.json)) return {
		kind: "refused",
		error: new VidgenError("not_found", `The service has no generation ${id}.`, {
			id,
			httpStatus: 404
		})
	};
	if (isTransient(status) || status === 404) {
		const after = retryAfterMs(reply.retryAfter, now);
		return {
			kind: "trouble",
			reason: describeReply(reply),
			httpStatus: status,
			retryAfterMs: after
		};
	}
	const generation = status < 300 && reply.cut === void 0 ? readGeneration(reply.json, id) : void 0;
	if (generation) return {
		kind: "generation",
		generation: normalizeGeneration(generation, baseUrl)
	};
	const saysWhy = saysNo(reply.json) && errorText(reply.json) !== void 0;
	if (status >= 300 || saysWhy) return {
		kind: "refused",
		error: refusal(reply).with({ id })
	};
	return {
		kind: "trouble",
		reason: `an unusable response (HTTP ${status})`,
		httpStatus: status
	};
}
// src/client/follow.ts
/** For this long a 404 for a known id, or `completed` without a video, counts as a delay inside the service. */
const toleranceMs = 6e4;
/** Other refusals are believed when they come this often in a row, this far apart at most. */
const maxRefusals = 3;
const refusedIntervalMs = 5e3;
/** From 9.5 s down to 5 s over the first minute: the interface recommends every 5 to 10 s, and a generation takes 1 to 3 minutes. */
function remotePace(elapsedMs) {
	return Math.max(5e3, 9500 - elapsedMs * .075);
}
/** The local service renders in seconds, and a poll costs it nothing. */
function localPace(elapsedMs) {
	return Math.min(1e3, 100 + elapsedMs / 10);
}
const usualTimeoutMs = 9e5;
/** Checks the times that a caller gives, in milliseconds, and fills in the usual ones of a service. Throws `usage`. */
function readTimes({ timeoutMs = usualTimeoutMs, intervalMs }, baseUrl) {
	if (!(timeoutMs > 0)) throw usage("timeoutMs must be a number above 0.");
	if (intervalMs !== void 0 && !(intervalMs >= 1e3)) throw usage("intervalMs must be at least 1000.");
	const pace = isLoopback(new URL(baseUrl).hostname) ? localPace : remotePace;
	return {
		timeoutMs,
		intervalMs: intervalMs === void 0 ? pace : () => intervalMs
	};
}
/**
* Polls a generation until it ends (interface sections 3 and 4.2) and returns it completed. Network errors, 429 and 5xx are retried
* until the timeout, and so is a refusal between good answers until it repeats. Throws `failed`, `pending` (the timeout), `network` (the
* timeout, when no poll had an answer), `not_found`, `auth`, `credits`, `rejected` (also when it has completed and names no video), or the
* signal's reason.
*/
async function follow(api, id, options, clock) {
	const start = clock.now();
	const timeout = new VidgenError("pending", `Timed out after ${formatLimit(options.timeoutMs)}; still generating.`, { id });
	const limit = clock.limit(options.timeoutMs, options.signal, timeout);
	const judge = createJudge(id, options, clock);
	try {
		if (options.isNew) await clock.sleep(options.intervalMs(0), limit.signal);
		for (;;) {
			const elapsedMs = clock.now() - start;
			const result = await poll(api, id, clock, limit.signal);
			const completed = judge.completed(result);
			if (completed) return completed;
			await clock.sleep(judge.waitMs(result, options.intervalMs(elapsedMs)), limit.signal);
		}
	} catch (error) {
		throw error === timeout ? judge.timeoutError(timeout) : error;
	} finally {
		limit.clear();
	}
}
/** Such as "15m", as `--timeout` takes it. */
function formatLimit(ms) {
	return ms % 6e4 === 0 ? `${ms / 6e4}m` : `${ms / 1e3}s`;
}
/** Interprets each poll, with what the polls before it have shown. */
function createJudge(id, options, clock) {
	const statuses = new Set(states);
	let failures = 0;
	let trouble = "no response";
	const wasReached = () => options.isNew || isSeen || refusals > 0;
	let isSeen = false;
	let refusals = 0;
	let refusedSince;
	let completedSince;
	const isBelieved = ({ code }, sinceMs) => {
		if (code === "not_found" && options.isKnown) return clock.now() - sinceMs >= toleranceMs;
		return refusals >= (code === "not_found" || isSeen ? maxRefusals : 1);
	};
	const unreachedError = () => new VidgenError("network", `No usable response from the service: ${trouble}.`, {
		id,
		hint: doctorHint
	});
	return {
		/** The error for the end of the time to wait: `pending` only for a generation that may be running as far as the service has said. */
		timeoutError(pending) {
			if (completedSince !== void 0) return missingVideoUrlError(id);
			return wasReached() ? pending : unreachedError();
		},
		completed(result) {
			failures = result.kind === "trouble" ? failures + 1 : 0;
			if (result.kind === "trouble") {
				trouble = result.reason;
				if (result.isFinal && !wasReached()) throw unreachedError();
				if (failures >= 3) options.onTrouble?.(trouble);
				return;
			}
			if (result.kind === "refused") {
				refusals++;
				refusedSince ??= clock.now();
				if (isBelieved(result.error, refusedSince)) throw result.error;
				return;
			}
			isSeen = true;
			refusals = 0;
			refusedSince = void 0;
			const { generation } = result;
			if (generation.status === "failed") throw failedError(id, generation);
			if (generation.status === "completed") {
				const videoUrl = readVideoUrl(generation);
				if (videoUrl !== void 0) return {
					generation,
					videoUrl
				};
				completedSince ??= clock.now();
				if (clock.now() - completedSince < toleranceMs) return void 0;
				throw missingVideoUrlError(id);
			}
			completedSince = void 0;
			const status = errorText(generation.status) ?? "";
			options.onState?.(status, readPercent(generation));
			if (!statuses.has(status)) options.onNote(`The service reports the state "${status}"; treated as still running.`);
			statuses.add(status);
		},
		waitMs(result, intervalMs) {
			if (result.kind === "trouble") return freeRetryMs(failures, clock.random(), result.retryAfterMs);
			if (result.kind === "refused") return Math.min(intervalMs, refusedIntervalMs);
			if (completedSince === void 0) return intervalMs;
			return Math.min(intervalMs, Math.max(0, completedSince + toleranceMs - clock.now()));
		}
	};
}
/** A field that the interface does not have, and that `vidgen serve` adds for real models. */
function readPercent({ progress }) {
	return typeof progress === "number" && progress >= 0 && progress <= 100 ? Math.floor(progress) : void 0;
}
function missingVideoUrlError(id) {
	return new VidgenError("rejected", "The generation is completed, but the service returned no video URL.", {
		id,
		hint: "`vidgen status <id> --json` shows the full response of the service."
	});
}
function failedError(id, generation) {
	return new VidgenError("failed", `The generation failed: ${errorText(generation.error) ?? "the service gave no reason"}`, {
		id,
		hint: "Try another prompt or model; each attempt is charged."
	});
}
/** The http(s) address of the video, its odd characters encoded; `undefined` when there is none that can be fetched. */
function readVideoUrl(generation) {
	const url = generation.video_url;
	if (typeof url !== "string" || !URL.canParse(url)) return void 0;
	const parsed = new URL(url);
	if (parsed.protocol !== "https:" && parsed.protocol !== "http:") return void 0;
	return /^[\x21-\x7e]+$/.test(url) ? url : parsed.href;
}
// src/client/info.ts
/**
* Puts the info file of `--write-info-json` beside a saved video: `fox.mp4.json` with the request as the journal keeps it, the times and the
* credits; null is what nobody knows. Replaces an earlier info of the same generation, and anything else only with `overwrite`. Throws
* `output` when it cannot be written.
*/
async function writeInfo(video, known, { overwrite, redact }, { disk, uuid }) {
	const path = infoPath(video);
	const temporary = join(dirname(path), `.vidgen-${uuid()}.part`);
	try {
		const mayReplace = await hasInfo(video, known.id, disk) || overwrite && await kindOf$1(path, disk) === "file";
		await writeNew(temporary, `${JSON.stringify(redactValue(infoOf(known), redact), null, 2)}\n`, disk);
		await (mayReplace ? disk.rename(temporary, path) : renameNew(temporary, path, disk));
	} catch (error) {
		await disk.rm(temporary, { force: true }).catch(() => {});
		throw infoError(error, video);
	}
}
/** Whether the info file beside a video is there and about this generation. */
async function hasInfo(video, id, disk) {
	const path = infoPath(video);
	const found = await disk.stat(path).catch(() => void 0);
	if (!found?.isFile() || found.size > maxInfoBytes) return false;
	const json = parseJson(await readText(path, disk).catch(() => ""));
	return isRecord(json) && json.id === id;
}
/** A longer file is none of ours: the command line that a request comes from is shorter. */
const maxInfoBytes = 1e7;
async function readText(path, disk) {
	const file = await disk.open(path, "r");
	try {
		const { size } = await file.stat();
		const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
		return buffer.toString("utf8", 0, bytesRead);
	} finally {
		await file.close();
	}
}
/** Resolves when the file is on the disk. */
async function writeNew(path, text, disk) {
	const file = await disk.open(path, "wx");
	try {
		const bytes = Buffer.from(text);
		for (let done = 0; done < bytes.length;) done += (await file.write(bytes, done)).bytesWritten;
		await file.sync();
	} finally {
		await file.close();
	}
}
function infoPath(video) {
	return `${video}.json`;
}
function infoOf({ id, entry, generation, credits }) {
	const { model, prompt } = wordsOf(entry, generation);
	return {
		id,
		model: model ?? null,
		prompt: prompt ?? null,
		request: entry?.request ?? null,
		started_at: entry?.at ?? null,
		created_at: generation?.created_at ?? null,
		completed_at: generation?.completed_at ?? null,
		credits: credits ?? null,
		remaining_credits: entry?.remaining_credits ?? null
	};
}
function infoError(cause, video) {
	const path = infoPath(video);
	const saved = `The video is saved as ${video}, but its info file is not`;
	if (!isExistsError(cause)) return new VidgenError("output", `${saved}: ${path}: ${systemReason(cause)}.`, { cause });
	const hint = `Move ${path} away, or add --overwrite to replace both.`;
	return new VidgenError("output", `${saved}: ${path} exists and is not about this generation.`, {
		hint,
		cause
	});
}
// src/client/journal.ts
const chunkBytes = 1e6;
/**
* The journal at a path; the first line creates the file. Several processes may append at once: no line ever moves. `earlier` is the path of
* a journal that can no longer be written: lines about its attempts go to this one.
*/
function openJournal(path, io, earlier) {
	const { disk } = io;
	const leaseOf = (holder, journal = path) => join(`${journal}.leases`, holder);
	const sources = (words) => [linesBackwards(path, disk, words), ...earlier === void 0 ? [] : [readableLines(earlier, disk, words)]];
	const inTurn = createTurns();
	const watch = /* @__PURE__ */ new Map();
	const asOutputError = (error) => {
		if (error instanceof VidgenError || systemCode(error) === void 0) throw error;
		throw new VidgenError("output", `Cannot write the journal ${path}: ${systemReason(error)}.`, {
			hint: "Generations are recorded before they are paid for. Fix permissions, free up disk space, or set VIDGEN_HOME to another folder.",
			cause: error
		});
	};
	return {
		path,
		async append(line) {
			await appendLine(path, {
				at: io.date().toISOString(),
				...line
			}, disk).catch(asOutputError);
		},
		async entries(goOn = () => true) {
			const fold = createFolding();
			const entries = [];
			for (const source of sources()) for await (const lines of source) {
				const part = lines.flatMap((line) => fold(line) ?? []);
				entries.push(...part);
				if (part.length > 0 && !goOn(part)) break;
			}
			return entries;
		},
		async entriesOf(id) {
			const ids = [.../* @__PURE__ */ new Set([
				id,
				id.toLowerCase(),
				id.toUpperCase()
			])];
			const attempts = /* @__PURE__ */ new Set();
			for (const source of sources(ids)) for await (const lines of source) for (const line of lines) if ("attempt" in line && "id" in line && isSameId(line.id ?? "", id)) attempts.add(line.attempt);
			if (attempts.size === 0) return [];
			const fold = createFolding();
			const entries = [];
			for (const source of sources([...ids, ...attempts])) for await (const lines of source) entries.push(...lines.flatMap((line) => fold(line) ?? []));
			return entries.filter(({ attempt }) => attempts.has(attempt));
		},
		async findLast(isWanted) {
			for (const source of sources()) for await (const lines of source) {
				const found = lines.find(isWanted);
				if (found) return found;
			}
		},
		lock: (work, signal = io.signal) => inTurn(() => withLock(`${path}.lock`, {
			io,
			signal,
			onNote: io.onNote
		}, work), signal).catch(asOutputError),
		async hold() {
			const holder = io.uuid();
			const acquired = await tryLease(leaseOf(holder), io, watch).catch(asOutputError);
			if (acquired.kind === "held") throw new Error(`the lease ${holder} is held`);
			const release = async () => {
				await acquired.lease.release();
				await disk.rmdir(dirname(leaseOf(holder))).catch(() => {});
			};
			return {
				...acquired.lease,
				holder,
				release
			};
		},
		async isHeld(holder) {
			if (earlier !== void 0 && await readHolder(leaseOf(holder, earlier), io).catch(() => {})) return true;
			const acquired = await tryLease(leaseOf(holder), io, watch).catch(asOutputError);
			if (acquired.kind === "held") return acquired.holder.isSure || "unsure";
			await acquired.lease.release();
			return false;
		},
		async forget({ attempt, id }) {
			const isGone = (line) => "attempt" in line ? line.attempt === attempt : line.id !== void 0 && line.id === id;
			await blank(path, isGone, disk).catch(asOutputError);
		}
	};
}
/**
* The lines from the newest to the oldest, a chunk at a time; none where there is no file. With `words` only lines that hold one of them:
* the others are not parsed.
*/
async function* linesBackwards(path, disk, words) {
	const isWanted = (text) => text !== "" && (words === void 0 || words.some((word) => text.includes(word)));
	let file;
	try {
		file = await openLines(path, "r", { disk });
		let end = (await file.stat()).size;
		/** The end of a line that begins in an earlier chunk, with its newline. */
		let rest = Buffer.alloc(0);
		while (end > 0) {
			const start = Math.max(0, end - chunkBytes);
			const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
			const bytes = Buffer.concat([buffer.subarray(0, bytesRead), rest]);
			const first = start === 0 ? 0 : bytes.indexOf(10) + 1;
			rest = bytes.subarray(0, first);
			end = start;
			if (words && !words.some((word) => bytes.includes(word))) continue;
			yield bytes.toString("utf8", first).split("\n").reverse().flatMap((text) => isWanted(text) ? parseLine$1(text) ?? [] : []);
		}
	} catch (error) {
		if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return;
		throw new VidgenError("output", `Cannot read the journal ${path}: ${systemReason(error)}.`, { cause: error });
	} finally {
		await file?.close();
	}
}
/** The same as far as the file can be read. */
async function* readableLines(path, disk, words) {
	try {
		yield* linesBackwards(path, disk, words);
	} catch {}
}
/** Overwrites lines in place: other processes may append meanwhile, so nothing may move. */
async function blank(path, isGone, disk) {
	const file = await openLines(path, "r+", { disk });
	try {
		for await (const { text, start, length } of readLines(file)) {
			const line = parseLine$1(text);
			if (line && isGone(line)) await file.write(Buffer.alloc(length, " "), 0, length, start);
		}
		await file.datasync();
	} finally {
		await file.close();
	}
}
/** For a client that writes nothing down. */
const noJournal = {
	append: async () => {},
	entries: async () => [],
	entriesOf: async () => [],
	findLast: async () => void 0,
	lock: (work) => work({ confirm: async () => {} }),
	hold: async () => ({
		holder: "",
		lost: new AbortController().signal,
		confirm: async () => {},
		release: async () => {}
	}),
	isHeld: async () => false,
	forget: async () => {}
};
/**
* A journal into which no key is written, wherever in a line it stands: a prompt, a path or the service's own words may have it in them.
* These words may also repeat an address or an image of the request.
*/
function withoutSecrets(journal, redact) {
	const redacted = (line) => {
		const hidden = redactValue(line, redact);
		return "reason" in hidden ? {
			...hidden,
			reason: shortenAddresses(hidden.reason)
		} : hidden;
	};
	return {
		...journal,
		append: (line) => journal.append(redacted(line))
	};
}
// src/client/salvage.ts
/**
* Reads a start reply (interface 2.3): whole, cut anywhere, or with values that are no JSON, such as NaN. The id is taken from inside `data`
* and nowhere else, since an echoed prompt may hold anything, and in the words in which it came, a number too. A cut id is none.
*/
function readStartReply(text) {
	const { id, success, remaining_credits } = scanStartReply(text);
	const saysNo = success === "false";
	if (id === void 0 || !isUsableId(id)) return {
		started: void 0,
		saysNo
	};
	const json = parseJson(text);
	const data = isRecord(json) && isRecord(json.data) ? json.data : {};
	const status = typeof data.status === "string" ? data.status : "processing";
	const generation = asGeneration({
		...data,
		id,
		status
	}) ?? {
		id,
		status
	};
	const credits = Number(remaining_credits ?? "NaN");
	return {
		started: {
			generation,
			remaining_credits: Number.isNaN(credits) ? void 0 : credits
		},
		saysNo
	};
}
/** A string (its closing quote is missing where the text is cut), a bracket, a colon or comma, or any other word, such as a number. */
const tokens = /"[^"\\]*(?:\\.[^"\\]*)*("?)|[{}[\]:,]|[^\s{}[\]:,"]+/gs;
function scanStartReply(text) {
	const found = {};
	const levels = [];
	for (const { 0: token, 1: quote, index } of text.matchAll(tokens)) {
		const level = levels.at(-1);
		if (token === "{" || token === "[") levels.push({ isObject: token === "{" });
		else if (level === void 0) return {};
		else if (token === "}" || token === "]") {
			levels.pop();
			if (levels.length === 0) return found;
		} else if (token === ",") level.name = level.key = void 0;
		else if (token === ":") level.key = level.name;
		else {
			if (!(token.startsWith("\"") ? quote === "\"" : index + token.length < text.length)) return found;
			if (level.isObject && level.key === void 0) level.name = readWord(token);
			else take(token, levels, found);
		}
	}
	return found;
}
function take(token, levels, found) {
	const [top, second, third] = levels;
	if (!top?.isObject || third !== void 0) return;
	if (second?.isObject && top.key === "data" && second.key === "id" && (token.startsWith("\"") || isNumber(token))) found.id = readWord(token);
	if (second !== void 0) return;
	if (top.key === "success") found.success = token;
	if (top.key === "remaining_credits" && isNumber(token)) found.remaining_credits = token;
}
function isNumber(token) {
	return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(token);
}
/** What a string stands for; "" for one that is not valid JSON. Any other word as it is. */
function readWord(token) {
	return token.startsWith("\"") ? String(parseJson(token) ?? "") : token;
}
// src/client/start.ts
/** How long the service may take to answer the start request. */
const answerLimitMs = 12e4;
/** How long unsent requests and "not now" answers are retried. */
const unsentLimitMs = 6e4;
const notNowLimitMs = 12e4;
/** The shortest wait after "not now", whatever Retry-After says. */
const minWaitMs = 500;
/** How long a sent request may still take after the first Ctrl-C. */
const interruptLimitMs = 1e4;
/**
* Starts a generation (interface 4.1) whose intent is in the journal: see `begin.ts`. The request costs money, so it is sent once: it is retried
* only when no byte of it was written, or when the service said "not now" (429, 421, 425). Returns how it ended; the error is `network`
* (nothing was sent), `unknown` (it may have been charged), or the code of the service's refusal.
*/
async function start(api, request, options, io) {
	const { attempt, journal } = options;
	const end = await startUntilKnown(api, request, options, io).then((end) => unlessForeign(end, options));
	await journal.append(outcomeLine(end, attempt)).catch((error) => options.onNote(asVidgenError(error).message));
	if (end.kind !== "unknown") io.unsettled.delete(attempt);
	return end;
}
/** The id of another request is not taken for this one's: its video would be saved under the wrong name. */
async function unlessForeign(end, { attempt, isForeign }) {
	if (end.kind !== "accepted") return end;
	const { id } = end.started.generation;
	if (!await isForeign(id).catch(() => false)) return end;
	return unknownOutcome(`it named generation ${id}, which another request has started`, attempt);
}
function outcomeLine(end, attempt) {
	if (end.kind !== "accepted") {
		const { message: reason, code, id } = end.error;
		return {
			kind: end.kind,
			attempt,
			id,
			reason,
			code
		};
	}
	const { generation, remaining_credits } = end.started;
	return {
		kind: "accepted",
		attempt,
		id: generation.id,
		remaining_credits
	};
}
async function startUntilKnown(api, request, options, io) {
	const begin = io.now();
	/** Set once a request was answered with "not now": then no message may say that nothing was sent. */
	let notNow;
	for (let failures = 0;; failures++) {
		if (options.signal.aborted) return interruptedBetweenRequests(options.signal, notNow);
		io.unsettled.add(options.attempt);
		const outcome = await attemptOnce(api, request, options, io);
		if (outcome.kind !== "unsent" && outcome.kind !== "not now") return outcome;
		io.unsettled.delete(options.attempt);
		if (outcome.kind === "not now") notNow = outcome;
		if (options.signal.aborted) return interruptedBetweenRequests(options.signal, notNow);
		const minimumMs = outcome.kind === "not now" ? Math.max(outcome.waitMs ?? 0, minWaitMs) : 0;
		const waitMs = Math.max(minimumMs, backoffMs(failures, io.random()));
		const isOver = io.now() + waitMs - begin > (notNow ? notNowLimitMs : unsentLimitMs);
		if (notNow && options.retriesNotNow === false) return {
			...notAccepted(outcome, notNow),
			notNow
		};
		if (isOver || outcome.kind === "unsent" && outcome.isFinal) return notNow ? notAccepted(outcome, notNow) : unreachable(outcome);
		const what = notNow ? "Not accepted yet" : "Nothing was sent";
		options.onNote(`${what} (${outcome.reason}); retrying in ${Math.ceil(waitMs / 1e3)} s.`);
		await io.sleep(waitMs, options.signal).catch(() => {});
	}
}
async function attemptOnce(api, request, options, clock) {
	const limit = createAnswerLimit(options, clock);
	try {
		const signals = {
			signal: limit.signal,
			unsentSignal: options.signal
		};
		return classify(await api.start(request, options.attempt, signals), options.attempt, clock.date());
	} catch (error) {
		if (wasSent(error)) return unknownOutcome(limit.signal.aborted && options.signal.aborted ? "interrupted before the service responded" : describeFailure(error), options.attempt);
		const isFinal = isFinalConnectFailure(systemCode(error), api.baseUrl);
		return {
			kind: "unsent",
			reason: describeFailure(error),
			isFinal
		};
	} finally {
		limit.clear();
	}
}
/** A signal that aborts after two minutes, at the second Ctrl-C, or ten seconds after the first. */
function createAnswerLimit(options, clock) {
	const limit = clock.limit(answerLimitMs, options.leave, /* @__PURE__ */ new Error("no response within 120 s"));
	const controller = new AbortController();
	const cleared = new AbortController();
	const onLimit = () => controller.abort(limit.signal.reason);
	const wait = async () => {
		await clock.sleep(50, cleared.signal);
		options.onNote("Request sent; waiting up to 10 s for its id. Press Ctrl-C again to quit now (you may be charged).");
		await clock.sleep(interruptLimitMs, cleared.signal);
		controller.abort(options.signal.reason);
	};
	const onInterrupt = () => void wait().catch(() => {});
	limit.signal.addEventListener("abort", onLimit, { once: true });
	options.signal.addEventListener("abort", onInterrupt, { once: true });
	const clear = () => {
		limit.clear();
		cleared.abort();
		options.signal.removeEventListener("abort", onInterrupt);
	};
	return {
		signal: controller.signal,
		clear
	};
}
/**
* What an answer to the start request means. Only `unknown` may have been charged; only "not now" is sent again. An id is never thrown away:
* whatever the status, the outcome has it.
*/
function classify(reply, attempt, now) {
	const { status } = reply;
	const { started, saysNo } = readStartReply(reply.text);
	const id = started?.generation.id;
	const isSuccess = status >= 200 && status < 300;
	if (started && !saysNo && (isSuccess || isNotNow(status))) return {
		kind: "accepted",
		started
	};
	const reason = describeReply(reply);
	if (isNotNow(status) && id === void 0 && !lacksCredits(reply)) return {
		kind: "not now",
		reason,
		httpStatus: status,
		waitMs: retryAfterMs(reply.retryAfter, now)
	};
	if (status >= 400 && status < 500 && status !== 408 && !(isNotNow(status) && started)) return refusedOutcome(reply, id);
	if (id !== void 0) return unknownOutcome(`${reason}, though with an id`, attempt, {
		httpStatus: status,
		id
	});
	if (!isSuccess) return unknownOutcome(reason, attempt, { httpStatus: status });
	if (reply.cut !== void 0) return unknownOutcome(`the response was cut off: ${describeFailure(reply.cut)}`, attempt, { httpStatus: status });
	if (saysNo && errorText(reply.json) !== void 0) return refusedOutcome(reply);
	return unknownOutcome(`a response without an id: ${describeValues(reply)}`, attempt, { httpStatus: status });
}
function refusedOutcome(reply, id) {
	const error = refusal(reply);
	const explained = error.hint === void 0 ? error.with({ hint: "See `vidgen generate --help` for the flags and `vidgen models` for the models." }) : error;
	if (id === void 0) return {
		kind: "refused",
		error: explained
	};
	const { code, message, httpStatus } = explained;
	return {
		kind: "refused",
		error: new VidgenError(code, `${message} It named generation ${id} all the same.`, {
			httpStatus,
			id
		}).with({ hint: `\`vidgen status ${id}\` shows whether there is one.` })
	};
}
/** Whether a byte of the request was written; yes where `fetch` does not say, since a retry could charge twice. */
function wasSent(error) {
	return !(error instanceof RequestError) || error.sent;
}
/** The outcome of a start that may have been charged. `id` is that of a generation which the answer named without accepting the start. */
function unknownOutcome(reason, attempt, details = {}) {
	const { httpStatus, id } = details;
	return {
		kind: "unknown",
		error: new VidgenError("unknown", `The request was sent, but got no usable response: ${reason}. It may have been charged (attempt ${attempt}).${id === void 0 ? "" : ` It named generation ${id}.`}`, {
			httpStatus,
			id,
			hint: `Check your account for it before retrying; ${id === void 0 ? "`vidgen wait <id>` fetches it" : `\`vidgen wait ${id}\` fetches it`}. \`vidgen list --status unknown\` shows the attempt, which was not sent again.`,
			attempt
		})
	};
}
/** The end of a start that is interrupted between two requests. A request that was sent before was answered with "not now". */
function interruptedBetweenRequests(signal, notNow) {
	const { code, message } = asVidgenError(signal.reason);
	if (notNow) {
		const { httpStatus } = notNow;
		return {
			kind: "refused",
			error: new VidgenError(code, `${message} No generation was started.`, { httpStatus })
		};
	}
	return {
		kind: "unsent",
		error: new VidgenError(code, `${message} Nothing was sent, nothing was charged.`)
	};
}
function unreachable({ reason }) {
	return {
		kind: "unsent",
		error: new VidgenError("network", `Could not reach the service: ${reason}. Nothing was sent, nothing was charged.`, { hint: doctorHint })
	};
}
function notAccepted(last, notNow) {
	const then = last.kind === "unsent" ? `; then it could not be reached: ${last.reason}` : "";
	return {
		kind: "refused",
		error: new VidgenError("network", `The service did not accept the request: ${notNow.reason}${then}. Try again later.`, { httpStatus: notNow.httpStatus })
	};
}
// src/client/client.ts
/** For this long after a generation has completed its video may be downloaded, however little of the time to wait is left. */
const downloadMs = 3e5;
/** How many generations that nobody follows a client remembers to have started, and how many models that a note was given about. */
const maxRemembered = 1e3;
/** A client of the service, for the CLI and for the library. Throws `usage` for an address or a key that cannot be used. */
function createClient(options, io) {
	const baseUrl = checkBaseUrl(options.baseUrl, "baseUrl");
	const apiKey = checkApiKey(options.apiKey);
	const api = createApi({
		baseUrl,
		apiKey,
		fetch: io.fetch
	});
	const account = accountOf(baseUrl, apiKey);
	const { hide, redact } = createRedaction();
	hide(apiKey);
	const journal = withoutSecrets(options.journal ?? noJournal, redact);
	/** As the journal has it. */
	const service = redact(baseUrl);
	const onNote = options.onNote ?? (() => {});
	/** The generations that this client has started and not followed to an end yet: a part of the service may not know them. */
	const fresh = /* @__PURE__ */ new Map();
	const claims = createClaims(journal, io);
	/** The models that a note was given about: a batch sends the same one a thousand times. */
	const doubted = /* @__PURE__ */ new Map();
	async function sendUntilKnown(request, begun, how) {
		const { attempt, at } = begun;
		const guess = guessModel(request.model);
		if (guess !== void 0 && !doubted.has(request.model)) onNote(`Unknown model "${request.model}"; did you mean ${guess}? Sent as typed.`);
		remember(doubted, request.model, true);
		const leave = how.leave ?? new AbortController().signal;
		const record = redactValue(recordOf(request), redact);
		const isForeign = async (id) => (await entriesOf(id)).some((entry) => entry.attempt !== attempt && !isDeepStrictEqual(entry.request, record));
		const end = await start(api, request, {
			...how,
			leave,
			attempt,
			isForeign,
			journal,
			onNote
		}, io);
		if (end.kind !== "accepted") return end;
		const { generation, remaining_credits } = end.started;
		const entry = {
			attempt,
			at,
			base_url: service,
			account,
			request: record,
			remaining_credits
		};
		remember(fresh, generation.id, {
			...entry,
			id: generation.id,
			status: "processing"
		});
		return end;
	}
	async function send(request, begun, how) {
		const end = await sendUntilKnown(request, begun, how);
		if (end.kind !== "accepted") throw end.error;
		return {
			...end.started,
			attempt: begun.attempt
		};
	}
	const ready = (request, begun) => ({
		...begun,
		send: (how) => send(request, begun, how),
		sendUntilKnown: (how) => sendUntilKnown(request, begun, how)
	});
	const forBegin = (request, how) => {
		const record = redactValue(recordOf(request), redact);
		const placeRecord = how.place === void 0 ? void 0 : redact(how.place);
		return {
			...how,
			baseUrl: service,
			account,
			record,
			placeRecord,
			journal,
			entries,
			claims,
			onNote
		};
	};
	const isOurs = (entry) => entry.base_url === service;
	const entries = async (goOn) => (await journal.entries(goOn)).filter(isOurs);
	const entriesOf = async (id) => (await journal.entriesOf(id)).filter(isOurs);
	const find = async (id) => fresh.get(id) ?? (await entriesOf(id))[0];
	/** Appends a line about what has happened already, so a failure to write is only a note. */
	const record = (line) => journal.append(line).catch((error) => onNote(asVidgenError(error).message));
	/** Whether an attempt was started with the key of this client; yes where an earlier version has written nothing about that. */
	const isOwnAccount = (entry) => entry.account === void 0 || entry.account === account;
	/** A 404 means something for what this key has started alone: it is lost then, and stays so until it is found or started again. */
	async function explainNotFound(error, id, entry) {
		if (error.code !== "not_found" || entry === void 0) return error;
		if (!isOwnAccount(entry)) return new VidgenError("not_found", `The service has no generation ${id} for this key (account ${account}); it was started with another one (account ${entry.account}).`, {
			id,
			httpStatus: error.httpStatus,
			hint: "Nothing was changed: use the key that it was started with."
		});
		if (!isOpen(entry)) return error;
		await record({
			kind: "lost",
			id
		});
		const message = `The service has accepted generation ${id}, and no longer knows it: it is lost.`;
		const hint = `It was charged. \`vidgen wait ${id}\` asks again; the same command starts no other one without --again.`;
		return new VidgenError("not_found", message, {
			id,
			httpStatus: error.httpStatus,
			hint
		});
	}
	async function followAndRecord(id, how) {
		const { timeoutMs, intervalMs } = readTimes(how, baseUrl);
		const isNew = fresh.has(id);
		const entry = await find(id).catch(() => void 0);
		const isKnown = entry !== void 0 && isOwnAccount(entry);
		let isWatched = isNew;
		const onState = (status, percent) => {
			isWatched = true;
			how.onState?.(status, percent);
		};
		const onTrouble = (reason) => how.onTrouble?.(reason);
		const options = {
			timeoutMs,
			intervalMs,
			isNew,
			isKnown,
			signal: how.signal,
			onState,
			onTrouble,
			onNote
		};
		const completed = await follow(api, id, options, io).catch(async (thrown) => {
			const error = asVidgenError(thrown);
			if (error.code === "failed") await record({
				kind: "failed",
				id,
				reason: error.message
			});
			throw await explainNotFound(error, id, entry);
		}).finally(() => fresh.delete(id));
		how.onState?.("completed");
		await record({
			kind: "completed",
			id,
			...isWatched ? { watched: true } : {}
		});
		return completed;
	}
	async function claim(place, how = {}) {
		const entry = how.id === void 0 ? void 0 : await find(how.id).catch(() => void 0);
		return claims.claimUnderLock(place, {
			...how,
			entry
		});
	}
	async function followAndSave(id, target, how) {
		const { timeoutMs, intervalMs } = readTimes(how, baseUrl);
		const start = io.now();
		const { hold, version } = target;
		const signal = hold ? AbortSignal.any([how.signal, hold.lost]) : how.signal;
		const entry = await find(id).catch(() => void 0);
		await target.settle({
			id,
			...wordsOf(entry)
		});
		const completed = await followAndRecord(id, {
			...how,
			signal
		});
		const freshUrl = async (signal) => (await follow(api, id, {
			timeoutMs,
			intervalMs,
			isNew: false,
			isKnown: true,
			signal,
			onNote
		}, io)).videoUrl;
		const onVersion = async (version) => {
			if (!hold) return;
			const [file, { ino: inode }] = [target.partPath(), await target.part.stat()];
			await record({
				kind: "part",
				id,
				file,
				holder: hold.holder,
				inode,
				...version
			});
		};
		const onWhole = (content) => record({
			kind: "downloaded",
			id,
			...content
		});
		const { file, content } = await save(completed, {
			target,
			entry,
			version,
			timeoutMs: Math.max(timeoutMs - (io.now() - start), downloadMs),
			signal,
			onVersion,
			onWhole,
			freshUrl,
			onProgress: how.onProgress ?? (() => {}),
			onNote
		}, io);
		const downloaded = {
			...completed,
			file,
			content
		};
		if (target.place === "-") return downloaded;
		await record({
			kind: "saved",
			id,
			file: resolve(file),
			...content
		});
		const known = {
			id,
			entry,
			generation: completed.generation,
			credits: how.credits
		};
		if (how.infoJson) await writeInfo(file, known, {
			overwrite: how.overwrite,
			redact
		}, io);
		return downloaded;
	}
	return {
		baseUrl,
		account,
		redact,
		async begin(request, how) {
			const begun = await begin(request, {
				...forBegin(request, how),
				earlier: how.earlier
			}, io);
			return begun.kind === "resumed" ? begun : ready(request, begun);
		},
		beginNew: async (request, how) => ready(request, await beginNew(request, forBegin(request, how), io)),
		async status(id, { signal }) {
			const entry = await find(id).catch(() => void 0);
			const generation = await pollUntilAnswered(api, id, io, signal, onNote).catch((error) => {
				throw entry !== void 0 && !isOwnAccount(entry) ? explainNotFound(asVidgenError(error), id, entry) : error;
			});
			const { status } = generation;
			if (status !== "completed" && status !== "failed") return generation;
			if (entry === void 0 || entry.status === status || entry.status === "completed") return generation;
			const reason = failedError(id, generation).message;
			const line = status === "completed" ? {
				kind: status,
				id
			} : {
				kind: status,
				id,
				reason
			};
			await journal.append(line).catch(() => {});
			fresh.delete(id);
			return generation;
		},
		follow: followAndRecord,
		claim,
		async download(id, place, how) {
			if (typeof place !== "string") return followAndSave(id, place, how);
			const target = await claim(place, {
				id,
				overwrite: how.overwrite,
				signal: how.signal
			});
			return followAndSave(id, target, how).finally(target.release);
		},
		entries,
		async findSaved(id, place) {
			const entry = await find(id);
			return entry && claims.findSaved({
				...entry,
				id
			}, place);
		},
		async addInfo(id, file, { signal }) {
			if (await hasInfo(file, id, io.disk)) return;
			const generation = await pollUntilAnswered(api, id, io, signal, onNote).catch(() => void 0);
			signal.throwIfAborted();
			await writeInfo(file, {
				id,
				entry: await find(id),
				generation
			}, { redact }, io);
		}
	};
}
/** Adds to a map, which never has more than the newest thousand. */
function remember(map, key, value) {
	map.set(key, value);
	const [oldest] = map.keys();
	if (map.size > maxRemembered && oldest !== void 0) map.delete(oldest);
}
// src/cli/context.ts
/** Quotes a word for a shell where it needs quotes; zsh expands a word that begins with "=". */
function quote(word) {
	return /^(?!=)[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
// src/client/batch/counts.ts
/** Counts the rows of a batch: from its plan, and from each event after that. */
function createCounts(plan) {
	const { rows: total, done, running, failed, refused, unknown, lost, to_start, remaining_credits } = plan;
	const counts = {
		total,
		done,
		running,
		failed: failed - refused,
		refused,
		unsent: 0,
		unknown,
		lost,
		to_start,
		remaining_credits
	};
	return {
		counts,
		take(event) {
			if (event.event === "started") {
				counts.remaining_credits = event.remaining_credits ?? counts.remaining_credits;
				if (event.resumed) return;
				counts.to_start--;
				counts.running++;
			}
			if (event.event !== "ended") return;
			const { id, status, error } = event;
			if (status === "refused" && id === null && isGeneral(error?.code)) return;
			if (status === "refused" || status === "unsent" || status === "unknown") counts.to_start--;
			else counts.running--;
			if (status === "completed" && error === null) counts.done++;
			else if (status === "processing" || status === "completed") counts.running++;
			else counts[status]++;
		}
	};
}
// src/cli/terminal/tally.ts
function countRows(count) {
	return count === 1 ? "1 row" : `${formatNumber(count)} rows`;
}
function formatNumber(value) {
	return value.toLocaleString("en-US");
}
// src/cli/terminal/batch-report.ts
/** When several apply, the first of these decides the exit code. */
const order = [
	"unknown",
	"auth",
	"credits",
	"not_found",
	"failed",
	"output",
	"network",
	"rejected",
	"pending"
];
/** The error that a batch ends with, with what to do next; `undefined` when every row is done. */
function endOfBatch({ rows }, ended, how, io) {
	const { end, counts } = ended;
	const { results, isLocal } = how;
	const { done, total, unknown, lost, failed, refused, running, unsent, to_start, remaining_credits } = counts;
	const [failure] = end.failures;
	if (done === total && failure === void 0) return void 0;
	const code = codeOf$1(rows, end, io);
	const others = [
		["may have been charged", unknown],
		["lost", lost],
		["failed", failed + refused],
		["running", running],
		["not started", to_start + unsent]
	].flatMap(([name, count]) => count > 0 ? [`${count} ${name}`] : []);
	const reason = end.stopped ?? (done === total ? failure?.ended.error : void 0);
	const why = reason ? ` ${reason.message.replace(/\.?$/, ".")}` : "";
	const rowsDone = `${done} of ${countRows(total)} done`;
	const left = remaining_credits === null || isLocal ? "" : ` ${formatNumber(remaining_credits)} credits are left.`;
	const message = `${rowsDone}${others.length > 0 ? `; ${others.join(", ")}` : ""}.${why}${left}`;
	const { file, command, retryFailed, retryUnknown, dryRun, ...flags } = how.flags;
	const typed = [
		"batch",
		file,
		...flagWords(command, flags)
	].map(quote).join(" ");
	const words = `${programName(io.env)} ${typed}`;
	const isOpen = running + unsent + to_start > 0;
	const isBlocked = needsMore(end, io);
	return new VidgenError(code, message, {
		hint: [
			`What became of each row: ${programName(io.env)} batch status ${quote(results)}`,
			...unknown > 0 ? ["Check your account for the rows that may have been charged; they are left alone."] : [],
			...lost > 0 ? ["The lost rows were charged, and are left alone; `vidgen wait <id>` asks for one again."] : [],
			...unknown + lost > 0 ? ["After `vidgen list --dismiss <attempt>` one of these is started, and charged, again; all of them with:", `  ${words} --retry-unknown`] : [],
			...failed + refused > 0 ? ["Failed rows are started, and charged, again with:", `  ${words} --retry-failed`] : [],
			...isBlocked && end.stopped?.hint ? [end.stopped.hint] : [],
			...isOpen ? [`Go on${isBlocked ? ", once that is solved," : ""} with: ${words}`] : []
		].join("\n"),
		cause: end.stopped
	});
}
/** Whether the same command would stop at once, for want of credits, a key or a connection. */
function needsMore({ stopped }, { signal }) {
	return !signal.aborted && stopped !== void 0 && [
		"auth",
		"credits",
		"network"
	].includes(stopped.code);
}
function codeOf$1(rows, { stopped, failures }, { signal }) {
	const ofRun = failures.map(({ ended }) => codeOfRow(ended.status === "unknown" ? "unknown" : ended.error?.code));
	if (signal.aborted) return ofRun.includes("unknown") ? "unknown" : asVidgenError(signal.reason).code;
	const codes = [
		...rows.flatMap(({ state }) => {
			if (state.kind === "unknown") return "unknown";
			if (state.kind === "lost") return "not_found";
			return state.kind === "failed" ? codeOfRow(state.attempt.error?.code) : [];
		}),
		...ofRun,
		...stopped ? [codeOfRow(stopped.code)] : []
	];
	return order.find((code) => codes.includes(code)) ?? "pending";
}
/** As one of those that decide. */
function codeOfRow(code) {
	return code !== void 0 && order.includes(code) ? code : "rejected";
}
// src/client/batch/row.ts
/** Names the rows: by their `id`, else by the request and how many equal requests without one come before. */
function keyRows(rows) {
	const counts = /* @__PURE__ */ new Map();
	return rows.map((row) => {
		const hash = hashRequest(row.record);
		if (row.id !== void 0) return {
			...row,
			hash,
			key: row.id
		};
		const count = (counts.get(hash) ?? 0) + 1;
		counts.set(hash, count);
		return {
			...row,
			hash,
			key: `${hash}-${count}`
		};
	});
}
/** The same for requests with the same fields, in any order. */
function hashRequest(record) {
	const sorted = (_, value) => typeof value === "object" && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)) : value;
	return createHash("sha256").update(JSON.stringify(record, sorted)).digest("hex").slice(0, 16);
}
/** Which of `count` shards a row belongs to, from 1: by its key alone, so that machines that know nothing of each other agree. */
function shardOf({ key }, count) {
	return createHash("sha256").update(key).digest().readUInt32BE() % count + 1;
}
// src/client/batch/plan.ts
/**
* The attempts of a batch, the oldest first: what the journal says, which is written before anything else, and what results files add, which
* another machine may have written. `isOurs` tells of entries that no results file has. `open` leaves out the dismissed ones, which may have
* been charged all the same.
*/
function mergeAttempts(results, entries, isOurs) {
	const merged = new Map(mergeLines(results).map((line) => [line.attempt, line]));
	const dismissed = /* @__PURE__ */ new Set();
	for (const entry of entries) {
		const known = merged.get(entry.attempt);
		if (known === void 0 && !isOurs(entry)) continue;
		const line = mergeLine(known ?? lineOf(entry), entry);
		merged.set(entry.attempt, line);
		if (entry.dismissed && isUnclear(line)) dismissed.add(entry.attempt);
	}
	const all = mergeLines([...merged.values()]);
	return {
		all,
		open: all.filter(({ attempt }) => !dismissed.has(attempt))
	};
}
function mergeLine(line, entry) {
	const { status, remaining_credits = line.remaining_credits, account = line.account, reason } = entry;
	if (status === "dismissed" || rankOf(status) < rankOf(line.status)) return {
		...line,
		account
	};
	const file = entry.file === void 0 || entry.file === "-" ? line.file : entry.file;
	const error = reason === void 0 ? null : {
		code: entry.code ?? codeOf(status),
		message: reason
	};
	const isSame = status === line.status;
	return {
		...line,
		status,
		id: entry.id ?? line.id,
		account,
		file,
		content: entry.content ?? line.content,
		remaining_credits,
		error: isSame ? line.error ?? error : error
	};
}
function codeOf(status) {
	if (status === "failed" || status === "unknown") return status;
	return status === "unsent" ? "network" : "rejected";
}
/** What the journal alone knows of an attempt. */
function lineOf({ attempt, at, row = "", request, account, remaining_credits }) {
	return {
		at,
		row,
		line: 0,
		request: hashRequest(request),
		model: request.model,
		attempt,
		account,
		id: null,
		status: "starting",
		file: null,
		content: null,
		error: null,
		credits: null,
		balance_fell: null,
		remaining_credits: remaining_credits ?? null,
		started_at: at,
		ended_at: null
	};
}
/**
* Decides what is to be done about each row, by its attempts. Throws `usage`, naming both, for a row that asks for something else than an
* earlier one of the same id.
*/
async function planRows(rows, attempts, options, disk) {
	const byRow = groupByRow(attempts);
	const faults = [];
	const planned = [];
	const lines = /* @__PURE__ */ new Map();
	for (const row of rows) {
		const other = lines.get(row.key);
		if (other !== void 0) faults.push(`line ${row.line}: the id "${shorten$1(row.key)}" is that of line ${other} too`);
		lines.set(row.key, row.line);
		const known = byRow.get(row.key) ?? [];
		const state = await stateOf(row, known, options, disk);
		const earlier = findDeciding(known);
		if (earlier && earlier.request !== row.hash && state.kind !== "new") faults.push(changedFault(row, earlier));
		planned.push({
			...row,
			state
		});
	}
	throwFaults(faults);
	return planned;
}
/**
* What the journal knows about the rows and the results file does not, because a process was killed between the two, or the results file was
* lost.
*/
function findUnwritten(rows, attempts, results) {
	const byKey = new Map(rows.map((row) => [row.key, row]));
	const written = new Map(results.map((line) => [line.attempt, factsOf(line)]));
	return attempts.flatMap(({ at: _, ...attempt }) => {
		const row = byKey.get(attempt.row);
		if (row === void 0) return [];
		const { state } = row;
		const found = state.kind === "done" && state.id === attempt.id ? {
			status: "completed",
			file: state.file,
			error: null
		} : {};
		const line = {
			...attempt,
			...found,
			line: row.line
		};
		return factsOf(line) === written.get(line.attempt) ? [] : line;
	});
}
/** Without the path, which the journal has as an absolute one. */
function factsOf({ status, id, file, error }) {
	return [
		status,
		id,
		file === null,
		error === null
	].join();
}
async function stateOf(row, known, options, disk) {
	const attempt = findDeciding(known);
	if (attempt === void 0) return {
		kind: "new",
		dismissed: []
	};
	const { id, status, file } = attempt;
	const kind = kindOfRow(attempt);
	if (kind === "missing") return {
		kind: "new",
		dismissed: []
	};
	if (kind === "failed") return attempt.request === row.hash && !options.retryFailed ? {
		kind,
		attempt
	} : {
		kind: "new",
		dismissed: []
	};
	if (kind === "unknown" || kind === "lost" || id === null) {
		if (!options.retryUnknown) return {
			kind: kind === "lost" ? kind : "unknown",
			attempt
		};
		return {
			kind: "new",
			dismissed: known.filter(isUnclear).map((each) => each.attempt)
		};
	}
	return status === "completed" && (row.place === void 0 || await isThere(attempt, disk)) ? {
		kind: "done",
		id,
		file
	} : {
		kind: "running",
		attempt: {
			...attempt,
			id
		}
	};
}
/** Whether the video of an attempt is where it was saved. Earlier versions have written nothing down that it could be known by. */
async function isThere({ file, content }, disk) {
	if (file === null) return false;
	if (content) return hasContent(file, content, disk);
	return disk.stat(file).then((found) => found.isFile() && found.size > 0, () => false);
}
function changedFault({ line, id = "" }, earlier) {
	const where = earlier.line > 0 ? `line ${earlier.line} of an earlier run` : "an earlier run";
	const outcome = earlier.id === null ? `attempt ${earlier.attempt}` : `generation ${earlier.id}`;
	return `line ${line}: "${shorten$1(id)}" asks for something else than ${where}, which was started at ${earlier.started_at.slice(0, 16)}Z (${outcome}); give it another id`;
}
const maxFaults = 50;
/** Throws `usage` with the first faults of a file, a line each; nothing when there are none. */
function throwFaults(faults) {
	if (faults.length === 0) return;
	const more = faults.length > maxFaults ? [`... and ${faults.length - maxFaults} more`] : [];
	throw usage(`The file has ${faults.length === 1 ? "1 fault" : `${faults.length} faults`}; nothing was sent.`, [...faults.slice(0, maxFaults), ...more].join("\n"));
}
// src/client/batch/collisions.ts
/** Throws `usage` for rows whose video is to be saved and whose output exists, unless it is that video. */
async function checkOutputs(rows, { overwrite }, { client, io }) {
	if (overwrite) return rows;
	const faults = [];
	const checked = [];
	const today = io.date().toISOString().slice(0, 10);
	const isListed = createListing(io.disk);
	for (const row of rows) {
		const { state, place } = row;
		const file = place === void 0 ? void 0 : await findOutput(place, row, {
			today,
			isListed,
			disk: io.disk
		});
		if (!(state.kind === "new" || state.kind === "running") || file === void 0 || await kindOf$1(file, io.disk) === "none") {
			checked.push(row);
			continue;
		}
		const id = state.kind === "running" ? state.attempt.id : void 0;
		const saved = id === void 0 || place === void 0 ? void 0 : await client.findSaved(id, place);
		if (id !== void 0 && saved !== void 0) checked.push({
			...row,
			state: {
				kind: "done",
				id,
				file: saved
			}
		});
		else faults.push(`line ${row.line}: ${file} exists already; --overwrite replaces it`);
	}
	throwFaults(faults);
	return checked;
}
/** Where the video of a row is saved; `undefined` when only its generation tells, or when no such file exists. */
async function findOutput(place, { record, state }, { today, isListed, disk }) {
	const words = {
		prompt: record.prompt,
		model: record.model
	};
	if (state.kind === "running") {
		const { id, started_at } = state.attempt;
		return findPlace(fillWords(place, words, started_at.slice(0, 10)), {
			id,
			...words
		}, disk);
	}
	if (/\{(id|n)\}/.test(place)) return void 0;
	const filled = fillWords(place, words, today);
	return !await isListed(filled) || await isFolder(filled, disk) ? void 0 : filled;
}
/** Tells whether a file may exist. Each folder is read once: a batch may have 100,000 rows, and looking at each file takes 20 s. */
function createListing(disk) {
	const folders = /* @__PURE__ */ new Map();
	const plain = (name) => name.normalize("NFC").toLowerCase();
	return async (file) => {
		const folder = dirname(resolve(file));
		const listed = folders.get(folder) ?? disk.readdir(folder).then((names) => new Set(names.map(plain)), (error) => systemCode(error) === "ENOENT" ? /* @__PURE__ */ new Set() : void 0);
		folders.set(folder, listed);
		const names = await listed;
		return names === void 0 || names.has(plain(basename(file)));
	};
}
// src/client/batch/rows-file.ts
/** `undefined` for rows of stdin ("-"), for those of a program (""), and for a file that is gone. */
async function findRowsFile(file, disk) {
	if (file === "" || file === "-") return void 0;
	const typed = join(await findRealPath(dirname(resolve(file)), disk), basename(file));
	const identity = await identify(typed, disk).catch(() => void 0);
	return identity && {
		identity,
		typed
	};
}
/**
* The other results files of a rows file, by their real paths. These are
* - those that lie beside it and are named after it, as without `--results`;
* - any other `.jsonl` file beside it, or beside this results file, whose first run was about it, whatever its name was then;
* - those that the journal has attempts of its rows for, also where they are gone.
*/
async function findOtherResults(path, rowsFile, entries, disk) {
	const { identity, typed } = rowsFile;
	const found = /* @__PURE__ */ new Set();
	for (const { batch, rows_file } of entries) if (batch !== void 0 && (isNamedAfter(batch, rowsFile) || isSameFile(rows_file, identity))) found.add(batch);
	for (const folder of new Set([
		path,
		identity.path,
		typed
	].map(dirname))) for (const name of await disk.readdir(folder).catch(() => [])) {
		const file = join(folder, name);
		if (!name.endsWith(".jsonl") || file === typed || file === identity.path) continue;
		if (isNamedAfter(file, rowsFile) || isSameFile(await readRowsFile(file, disk), identity)) found.add(await findRealPath(file, disk));
	}
	found.delete(path);
	return found;
}
function isNamedAfter(path, { identity, typed }) {
	const isAfter = (file) => path.startsWith(file) && /^(\.\d+-of-\d+)?\.results\.jsonl$/.test(path.slice(file.length));
	return isAfter(identity.path) || isAfter(typed);
}
/** Whether two parts of a rows file, such as "2/8" or `null` for all, have no row in common. */
function areDisjoint(one, other) {
	const [index, of] = one?.split("/") ?? [];
	const [otherIndex, otherOf] = other?.split("/") ?? [];
	return of !== void 0 && of === otherOf && index !== otherIndex;
}
// src/client/batch/hold.ts
/** Holds a results file. Throws `usage` when another process does, and `output` when that cannot be written down. */
async function holdResults(path, { io, onNote }) {
	const acquired = await acquireLease(lockOf(path), io, { onNote }).catch((cause) => {
		throw resultsError(path, cause);
	});
	if (acquired.kind === "acquired") return acquired.lease;
	throw usage(`Process ${acquired.holder.pid} runs this batch: it holds ${lockOf(path)}. Nothing was sent.`, "`vidgen batch status` with the results file shows how far it is.");
}
/**
* Throws `usage` while a process runs that has rows of this run too, under another results file. Each run writes down its part of the rows
* before it looks for others, so that of two at the same time at least one sees the other.
*/
async function checkAlone(paths, shard, how) {
	for (const path of paths) {
		if (await readHolder(lockOf(path), how.io) === void 0) continue;
		const { source } = await readResults(path, how.io.disk);
		if (source && areDisjoint(source.shard, shard)) continue;
		await (await holdResults(path, how)).release();
	}
}
// src/client/batch/slots.ts
/** How long after a start one more than the service has taken is tried: twice as long as was too early, since starts in a minute may be limited. */
const minGapMs = 5e3;
const maxGapMs = 6e4;
/** How long after it was refused. */
const minTrialMs = 15e3;
const maxTrialMs = 6e5;
/**
* "Not now" halves the number in flight; each one that ends makes it grow by one, up to the number that the service has taken. Beyond that
* one more is tried now and then, and the less often the more often it was refused: each refused start is a request too much.
*/
function createSlots(jobs, io) {
	let limit = jobs;
	let taken = jobs;
	let trialMs = minTrialMs;
	let gapMs = minGapMs;
	let startedAt = Number.NEGATIVE_INFINITY;
	let trialAt = 0;
	let refusals = 0;
	let refusedSince;
	let notBefore = Number.NEGATIVE_INFINITY;
	return {
		waitMs(inFlight) {
			if (inFlight >= limit || inFlight > taken) return void 0;
			const at = inFlight === taken ? Math.max(notBefore, trialAt, startedAt + gapMs) : notBefore;
			return Math.max(0, at - io.now());
		},
		accepted(inFlight) {
			refusals = 0;
			refusedSince = void 0;
			startedAt = io.now();
			if (inFlight < taken) return;
			taken = inFlight + 1;
			trialMs = Math.max(minTrialMs, trialMs / 2);
		},
		refused(inFlight, afterMs = 0) {
			refusedSince ??= io.now();
			taken = Math.max(1, inFlight);
			gapMs = Math.min(maxGapMs, Math.max(minGapMs, 2 * (io.now() - startedAt)));
			limit = Math.max(1, Math.floor(inFlight / 2));
			trialAt = io.now() + trialMs;
			trialMs = Math.min(trialMs * 2, maxTrialMs);
			notBefore = io.now() + Math.max(afterMs, 500, backoffMs(refusals++, io.random()));
		},
		ended() {
			refusedSince = void 0;
			limit = Math.min(jobs, limit + 1);
		},
		refusedForMs: () => refusedSince === void 0 ? 0 : io.now() - refusedSince
	};
}
// src/client/batch/run.ts
/** After so many in a row, something is wrong that concerns all rows. */
const maxInRow = 3;
/** The longest Retry-After that is waited for: a daily quota is not. */
const maxRetryAfterMs = 36e5;
/** How long a service may accept nothing. */
const refusedLimitMs = 9e5;
/**
* Starts rows one after the other, and collects those that run side by side. So one outcome at most can be unknown at a time, and the
* balance after each start tells what it cost.
*/
async function runRows({ running, toStart }, options, { work, costs, io, faultOf }) {
	const { jobs, signal } = options;
	const slots = createSlots(jobs, io);
	const waiting = [...running].reverse();
	const rows = [...toStart].reverse();
	const failures = [];
	const inRow = {
		unknown: 0,
		unsent: 0
	};
	let stopped;
	let inFlight = 0;
	let wake = () => {};
	const stop = (error) => {
		stopped ??= error;
	};
	const note = (row, ended) => {
		const { error, status } = ended;
		if (status === "completed" && error === void 0) return;
		failures.push({
			row,
			ended
		});
		if (error?.code === "auth" || error?.code === "credits" && status === "refused") stop(error);
		if (options.failFast && error && ["refused", "failed"].includes(status)) stop(error);
	};
	const collect = (running) => {
		inFlight++;
		const finish = async () => {
			note(running.row, await work.collect(running));
			inFlight--;
			slots.ended();
			wake();
		};
		finish();
	};
	const start = async (row) => {
		const sent = await work.start(row);
		if (sent.kind === "not now") {
			if (slots.refusedForMs() === 0) options.onNote("The service accepts no further generation at the moment; waiting.");
			slots.refused(inFlight, sent.afterMs);
			rows.push(row);
			if ((sent.afterMs ?? 0) > maxRetryAfterMs) stop(new VidgenError("network", "The service accepts nothing for more than an hour: run the batch again then."));
			if (slots.refusedForMs() > refusedLimitMs) stop(new VidgenError("network", "The service has accepted nothing for 15 minutes."));
			return;
		}
		const { kind } = sent;
		inRow.unknown = kind === "ended" && sent.status === "unknown" ? inRow.unknown + 1 : 0;
		inRow.unsent = kind === "ended" && sent.status === "unsent" ? inRow.unsent + 1 : 0;
		if (kind === "running") {
			slots.accepted(inFlight);
			return collect(sent.running);
		}
		note(row, sent);
		if (sent.error && (inRow.unknown === maxInRow || inRow.unsent === maxInRow)) stop(sent.error);
	};
	const onAbort = () => {
		stop(asVidgenError(signal.reason));
		wake();
	};
	signal.addEventListener("abort", onAbort, { once: true });
	if (signal.aborted) onAbort();
	for (;;) {
		const next = signal.aborted ? void 0 : inFlight < jobs && waiting.pop();
		if (next) {
			collect(next);
			continue;
		}
		const row = stopped ? void 0 : rows.at(-1);
		if (row === void 0 && inFlight === 0) break;
		const waitMs = row && slots.waitMs(inFlight);
		if (row && waitMs === 0) {
			rows.pop();
			const fault = faultOf() ?? checkBudget(row.record.model, options, costs);
			if (fault) stop(fault);
			else await start(row).catch((error) => stop(asVidgenError(error)));
			continue;
		}
		await pause(waitMs);
	}
	signal.removeEventListener("abort", onAbort);
	return {
		stopped: stopped ?? faultOf(),
		failures
	};
	/** Resolves when a generation has ended, at a signal, or when another may start. */
	async function pause(waitMs) {
		const over = new AbortController();
		const woken = new Promise((resolve) => {
			wake = resolve;
		});
		const slept = waitMs === void 0 ? [] : [io.sleep(waitMs, over.signal).catch(() => {})];
		await Promise.race([woken, ...slept]);
		over.abort();
	}
}
// src/client/batch/work.ts
/** What a batch does with one row: each step is in the results file before the next one depends on it. */
function createWork({ client, journal, costs, results, rowsFile, confirm, io }, options) {
	const { signal, leave, overwrite, onEvent } = options;
	const { account } = client;
	function tellEnd(row, line, { status, file = null, video_url = null, error }) {
		const told = {
			error: error ? errorFieldsOf(error) : null,
			credits: line.credits ?? void 0
		};
		onEvent({
			event: "ended",
			...nameOf(row),
			id: line.id,
			status,
			file,
			video_url,
			...told
		});
		return {
			status,
			error
		};
	}
	async function end(row, line, ended) {
		const { status, error, file = line.file, content = line.content } = ended;
		const short = error ? {
			code: error.code,
			message: error.message
		} : null;
		const last = {
			...line,
			status,
			file,
			content,
			error: short,
			ended_at: io.date().toISOString()
		};
		const failure = await results.append(last).then(() => void 0, asVidgenError);
		return tellEnd(row, line, {
			...ended,
			file,
			error: error ?? failure
		});
	}
	return {
		/** Starts a row. Rejects when the results file cannot be written, or belongs to another process: then nothing was sent. */
		async start(row) {
			const started_at = io.date().toISOString();
			let begun;
			const line = {
				row: row.key,
				line: row.line,
				request: row.hash,
				model: row.record.model,
				attempt: io.uuid(),
				account,
				id: null,
				status: "starting",
				file: null,
				content: null,
				error: null,
				credits: null,
				balance_fell: null,
				remaining_credits: null,
				started_at,
				ended_at: null
			};
			const batch = {
				path: results.path,
				row: row.key,
				rowsFile: rowsFile?.identity
			};
			try {
				const request = await row.load();
				if (hashRequest(recordOf(request)) !== row.hash) throw usage("An image has changed since the file was checked. Nothing was sent.");
				begun = await client.beginNew(request, {
					overwrite,
					place: row.place,
					batch,
					signal
				});
			} catch (error) {
				return {
					kind: "ended",
					...await end(row, line, {
						status: "unsent",
						error: asVidgenError(error)
					})
				};
			}
			line.attempt = begun.attempt;
			try {
				await results.append(line);
				const { state } = row;
				for (const attempt of state.kind === "new" ? state.dismissed : []) await journal?.append({
					kind: "dismissed",
					attempt
				});
				await confirm();
			} catch (error) {
				await begun.sendUntilKnown({
					signal: AbortSignal.abort(asVidgenError(error)),
					leave
				});
				await begun.release();
				throw error;
			}
			const sent = await begun.sendUntilKnown({
				signal,
				leave,
				retriesNotNow: false
			});
			if (sent.kind === "accepted") {
				const { generation, remaining_credits } = sent.started;
				const cost = costs.started(line.model, remaining_credits);
				const { id } = generation;
				const { credits = null, balance_fell = null } = cost;
				const told = {
					credits,
					balance_fell,
					remaining_credits: remaining_credits ?? null
				};
				const accepted = {
					...line,
					id,
					...told,
					status: "processing"
				};
				await results.append(accepted).catch(() => {});
				const { model, attempt } = accepted;
				onEvent({
					event: "started",
					...nameOf(row),
					id,
					attempt,
					model,
					resumed: false,
					remaining_credits,
					...cost
				});
				return {
					kind: "running",
					running: {
						row,
						line: accepted,
						target: begun.target,
						begun
					}
				};
			}
			await begun.release();
			const { id = null } = sent.error;
			if (sent.kind === "unknown" || id !== null) costs.unknown(line.model);
			if (sent.kind === "refused" && sent.notNow && !signal.aborted) {
				await results.append({
					...line,
					status: "refused",
					error: {
						code: "network",
						message: sent.error.message
					}
				});
				return {
					kind: "not now",
					afterMs: sent.notNow.waitMs
				};
			}
			return {
				kind: "ended",
				...await end(row, {
					...line,
					id
				}, {
					status: sent.kind,
					error: sent.error
				})
			};
		},
		/** Follows a row's generation to its end, and saves its video. Never rejects. */
		async collect({ row, line, target, begun }) {
			const { id } = line;
			const onState = (status) => onEvent({
				event: "state",
				...nameOf(row),
				id,
				status
			});
			const onProgress = (received, total) => onEvent({
				event: "progress",
				...nameOf(row),
				id,
				received,
				total: total ?? null
			});
			const how = {
				...options,
				credits: line.credits ?? void 0,
				onState,
				onProgress
			};
			let place = target;
			try {
				const words = {
					prompt: row.record.prompt,
					model: row.record.model
				};
				if (!begun && row.place !== void 0) place = await client.claim(row.place, {
					id,
					words,
					overwrite,
					resume: true,
					signal
				});
				if (!begun) onEvent({
					event: "started",
					...nameOf(row),
					id,
					attempt: line.attempt,
					model: line.model,
					resumed: true
				});
				const { videoUrl, file = null, content = null } = place ? await client.download(id, place, how) : {
					file: void 0,
					content: void 0,
					...await client.follow(id, how)
				};
				if (file !== null) onEvent({
					event: "saved",
					...nameOf(row),
					id,
					file
				});
				return await end(row, line, {
					status: "completed",
					file,
					content,
					video_url: videoUrl
				});
			} catch (thrown) {
				const error = asVidgenError(thrown).with({ id });
				if (signal.aborted) return tellEnd(row, line, {
					status: "processing",
					error
				});
				const isSeen = place !== void 0 || row.place === void 0;
				const isOwn = line.account === void 0 || line.account === account;
				return await end(row, line, {
					status: isSeen && isOwn ? statusOf(error) : "processing",
					error
				});
			} finally {
				await (begun ?? place)?.release().catch(() => {});
			}
		}
	};
}
/** How far a generation is that could not be collected. */
function statusOf({ code }) {
	if (code === "not_found") return "lost";
	if (code === "failed") return code;
	return code === "output" ? "completed" : "processing";
}
function nameOf({ key, line }) {
	return {
		row: key,
		line
	};
}
// src/client/batch/batch.ts
/**
* Plans a batch, and holds its results file until `close`. Throws `usage` for rows that contradict an earlier run, or whose output exists,
* for a results file that is something else or has a line that cannot be read, and while another process runs rows of it; `output` when it
* cannot be read or written.
*/
async function openBatch(rows, options, known) {
	const { client, journal, io } = known;
	const path = await findResults(options.results, io.disk);
	const holding = {
		io,
		onNote: options.onNote
	};
	const lease = options.isDryRun ? void 0 : await holdResults(path, holding);
	try {
		const named = rows.map((row) => renameRow(row, client.redact(row.key)));
		const own = await readResults(path, io.disk);
		checkService(own.source, path, client.redact(client.baseUrl));
		const rowsFile = await findRowsFile(options.source.file, io.disk);
		const results = openResults(path, describeSource(path, {
			rows: named,
			rowsFile,
			...options.source,
			client
		}), {
			...io,
			redact: client.redact
		});
		if (lease) await results.begin();
		const entries = await client.entries();
		const others = rowsFile ? await findOtherResults(path, rowsFile, entries, io.disk) : /* @__PURE__ */ new Set();
		const names = /* @__PURE__ */ new Set([path, ...own.names]);
		const elsewhere = [...names, ...others].filter((name) => name !== path);
		if (lease) await checkAlone(elsewhere, options.source.shard, holding);
		const attempts = await findAttempts(own, {
			rows: named,
			names,
			others,
			entries
		}, options, known);
		const planned = await checkOutputs(await planRows(named, attempts.open, options, io.disk), options, known);
		if (lease) await createFolders(planned, io.disk);
		noteOrphans(planned, attempts.open, options.onNote);
		noteOtherAccounts(planned, client.account, options.onNote);
		const costs = createCosts(attempts.all, entries, {
			account: client.account,
			now: io.date()
		});
		return {
			plan: sumUp(planned, costs),
			rows: planned,
			costs,
			async run(how) {
				if (!(how.jobs >= 1)) throw usage("jobs must be at least 1.");
				for (const line of findUnwritten(planned, attempts.open, own.attempts)) await results.append(line);
				const isNews = createEventFilter(io.now);
				let listenerError;
				const onEvent = (event) => {
					try {
						if (isNews(event)) how.onEvent(event);
					} catch (cause) {
						listenerError ??= new VidgenError("bug", `The listener of the batch has thrown: ${cause}`, { cause });
					}
				};
				const signal = lease ? AbortSignal.any([how.signal, lease.lost]) : how.signal;
				const confirm = async () => lease?.confirm();
				const work = createWork({
					client,
					journal,
					costs,
					results,
					rowsFile,
					confirm,
					io
				}, {
					...how,
					signal,
					overwrite: options.overwrite,
					onEvent
				});
				const toStart = planned.filter(({ state }) => state.kind === "new");
				const running = planned.flatMap((row) => row.state.kind === "running" ? [{
					row,
					line: row.state.attempt
				}] : []);
				const faultOf = () => listenerError;
				const failures = how.infoJson ? await addInfos(planned, client, signal) : [];
				const end = await runRows({
					running,
					toStart
				}, {
					...how,
					signal
				}, {
					work,
					costs,
					io,
					faultOf
				});
				return {
					...end,
					failures: [...failures, ...end.failures]
				};
			},
			close: async () => lease?.release()
		};
	} catch (error) {
		await lease?.release();
		throw error;
	}
}
function describeSource(path, { rows, rowsFile, file, total, shard, client }) {
	return {
		file: rowsFile === void 0 ? file : relative(dirname(path), rowsFile.identity.path),
		rows: rows.length,
		total,
		shard,
		service: client.redact(client.baseUrl),
		inode: rowsFile?.identity.inode,
		born: rowsFile?.identity.born,
		results: path
	};
}
/** All attempts of this results file, and those of the rows that other results files and the journal have. */
async function findAttempts(own, written, { onNote }, { client, io }) {
	const { rows, names, others, entries } = written;
	const keys = new Set(rows.map(({ key }) => key));
	const lines = [own.attempts];
	for (const other of others) {
		const { source, attempts } = await readResults(other, io.disk);
		if (source === void 0 || source.service === client.redact(client.baseUrl)) lines.push(attempts.filter(({ row }) => keys.has(row)));
		else onNote(`${other} has the results of another service, ${source.service}: they do not count.`);
	}
	const isOurs = ({ batch = "", row = "" }) => names.has(batch) || others.has(batch) && keys.has(row);
	return mergeAttempts(lines.flat(), entries, isOurs);
}
/** The row under the name that the results file has for it, which holds no key. */
function renameRow(row, key) {
	return key === row.key ? row : {
		...row,
		key
	};
}
/** Throws `usage` for the results of another service, such as the local one: its videos are not this one's, and it does not know their ids. */
function checkService(source, path, baseUrl) {
	if (source === void 0 || source.service === baseUrl) return;
	throw usage(`${path} has the results of another service, ${source.service}. Nothing was sent.`, "Choose another file with --results.");
}
/** Writes the info files that videos of earlier runs lack. */
async function addInfos(rows, client, signal) {
	const failures = [];
	for (const row of rows) {
		const { state } = row;
		if (state.kind !== "done" || state.file === null || signal.aborted) continue;
		await client.addInfo(state.id, state.file, { signal }).catch((error) => {
			failures.push({
				row,
				ended: {
					status: "completed",
					error: asVidgenError(error)
				}
			});
		});
	}
	return failures;
}
/** Tells of generations that were paid for, are not saved, and belong to no row any more: the user has changed or removed it. */
function noteOrphans(rows, attempts, onNote) {
	const keys = new Set(rows.map(({ key }) => key));
	const orphans = attempts.filter((attempt) => !keys.has(attempt.row) && kindOfRow(attempt) === "running");
	if (orphans.length === 0) return;
	const ids = orphans.slice(0, 3).map(({ id }) => id);
	onNote(`${orphans.length === 1 ? "1 generation" : `${orphans.length} generations`} of rows that the file no longer has may be unsaved: ${ids.join(", ")}${orphans.length > 3 ? " ..." : ""}. \`vidgen wait <id> -o ...\` saves one.`);
}
/** Tells of running rows that the service may not find with this key: a 404 changes nothing about them. */
function noteOtherAccounts(rows, account, onNote) {
	const isOther = (own) => own !== void 0 && own !== account;
	const found = rows.flatMap(({ state }) => state.kind === "running" && isOther(state.attempt.account) ? state.attempt : []);
	if (found.length === 0) return;
	onNote(`${found.length === 1 ? "1 running row was" : `${found.length} running rows were`} started with another key (account ${[...new Set(found.map(({ account }) => account))].join(", ")}, not ${account}): only that one collects them. Nothing is paid for them again.`);
}
/** Creates the folders that videos go to, before anything is paid; those with names in braces are created with their first file. */
async function createFolders(rows, disk) {
	const folders = new Set(rows.flatMap(({ place }) => place === void 0 ? [] : dirname(place)));
	for (const folder of folders) {
		if (folder.includes("{")) continue;
		await disk.mkdir(folder, { recursive: true }).catch((cause) => {
			throw new VidgenError("output", `Cannot create the folder ${folder}: ${systemReason(cause)}.`, { cause });
		});
	}
}
function sumUp(rows, costs) {
	const count = (kind) => rows.filter(({ state }) => state.kind === kind).length;
	const starts = /* @__PURE__ */ new Map();
	for (const { state, record } of rows) if (state.kind === "new") starts.set(record.model, (starts.get(record.model) ?? 0) + 1);
	const models = [...starts].map(([model, to_start]) => {
		const each = costs.typical(model) ?? null;
		return {
			model,
			to_start,
			credits_each: each,
			credits: each === null ? null : each * to_start
		};
	});
	const refused = rows.filter(({ state }) => state.kind === "failed" && state.attempt.status === "refused").length;
	const credits = models.every(({ credits }) => credits !== null) ? models.reduce((sum, { credits }) => sum + (credits ?? 0), 0) : null;
	return {
		rows: rows.length,
		done: count("done"),
		running: count("running"),
		failed: count("failed"),
		refused,
		unknown: count("unknown"),
		lost: count("lost"),
		to_start: count("new"),
		models,
		credits,
		remaining_credits: costs.remaining() ?? null
	};
}
// test/simulation/service.ts
const serviceUrl = "https://api.video.example";
const keys = ["canary-key-0123456789", "canary-other-9876543210"];
/** A service with two accounts, and a ledger that tells the truth. */
function createService({ schedule, random, troubles, events }) {
	const generations = /* @__PURE__ */ new Map();
	const credits = new Map(keys.map((key) => [key, 1e3]));
	/** Once it is healthy again, all faults are over. */
	let isHealthy = false;
	const charge = (plan, post, model, key) => {
		const now = schedule.now();
		const generated = {
			id: random.uuid(),
			key,
			attempt: post.attempt,
			prompt: post.prompt,
			model,
			startedAt: now,
			endsAt: now + plan.rendersMs,
			ends: plan.ends,
			lagMs: plan.lagMs,
			lostAt: plan.lostAfterMs === void 0 ? Number.POSITIVE_INFINITY : now + plan.lostAfterMs,
			downloads: 0,
			media: plan.media,
			version: 0
		};
		generations.set(generated.id, generated);
		credits.set(key, (credits.get(key) ?? 0) - 10);
		return generated;
	};
	const fetchFor = (process, starts) => {
		let posts = 0;
		const exchange = (url, init) => new Promise((resolve, reject) => {
			let isSent = false;
			let isDone = false;
			const { signal, unsentSignal } = init;
			const fail = (cause, sent) => {
				isDone = true;
				reject(new RequestError(cause, { sent }));
			};
			const onAbort = () => !isDone && fail(signal?.reason, isSent);
			const onUnsentAbort = () => !isDone && !isSent && fail(unsentSignal?.reason, false);
			signal?.addEventListener("abort", onAbort, { once: true });
			unsentSignal?.addEventListener("abort", onUnsentAbort, { once: true });
			if (signal?.aborted) return onAbort();
			if (unsentSignal?.aborted) return onUnsentAbort();
			/** Comes when the process runs, if it still waits for it. */
			const arrive = (ms, work) => process.after(ms, () => {
				if (isDone) return;
				isDone = true;
				signal?.removeEventListener("abort", onAbort);
				work();
			});
			const answer = (ms, found, onDelivered) => arrive(ms, () => resolve(() => {
				onDelivered();
				return responseOf(found);
			}));
			const onServer = (ms, work) => schedule.add({
				at: schedule.now() + ms,
				order: process.random.next(),
				run: work
			});
			if (init.method === "POST") {
				const plan = (isHealthy ? void 0 : starts[posts++]) ?? finePlan;
				const behaviour = startBehaviours[plan.does];
				if (behaviour.means === "unsent") {
					arrive(5, () => reject(new RequestError(systemError(behaviour.fails ?? ""), { sent: false })));
					return;
				}
				process.after(2 + process.random.next() * 20, () => {
					if (isDone) return;
					isSent = true;
					onServer(1 + process.random.next() * 5, () => {
						const { prompt, model } = JSON.parse(String(init.body));
						const attempt = init.headers?.["Idempotency-Key"] ?? "";
						const key = (init.headers?.Authorization ?? "").slice(7);
						const generated = behaviour.charges ? charge(plan, {
							attempt,
							prompt
						}, model, key) : void 0;
						const post = {
							attempt,
							prompt,
							behaviour,
							does: plan.does,
							generated,
							at: schedule.now()
						};
						events.onPost(process, post);
						const other = [...generations.values()].filter((each) => each.prompt !== prompt).findLast((each) => events.isWritten(each.id))?.id;
						const id = generated?.id ?? random.uuid();
						if (behaviour.fails === "silence") return;
						if (behaviour.fails !== void 0) {
							const error = systemError(behaviour.fails);
							arrive(plan.answersAfterMs, () => reject(new RequestError(error, { sent: true })));
							return;
						}
						const scene = {
							id,
							prompt,
							model,
							key,
							other,
							credits: credits.get(key)
						};
						const found = behaviour.answer?.(scene);
						if (found) answer(plan.answersAfterMs, found, () => events.onDelivered(process, post));
					});
				});
				return;
			}
			isSent = true;
			onServer(2 + process.random.next() * 20, () => {
				if (url.startsWith("https://api.video.example")) {
					const id = decodeURIComponent(url.slice(url.indexOf("=") + 1));
					const key = (init.headers?.Authorization ?? "").slice(7);
					const now = schedule.now();
					const trouble = isHealthy ? void 0 : troubles.find(({ from, until }) => now >= from && now < until);
					const generated = generations.get(id.toLowerCase());
					const said = trouble ? statusBehaviours[trouble.does]?.(generated, id) : statusAnswer(generated, key, now);
					if (said === "silence") return;
					if (said === void 0) {
						arrive(1, () => reject(new RequestError(systemError("ECONNRESET"), { sent: true })));
						return;
					}
					answer(1, said, () => events.onStatusDelivered(id, said.text));
					return;
				}
				const [, id = "", version = "0"] = /\/([^/]+)\/(\d+)\.mp4$/.exec(url) ?? [];
				const found = mediaAnswer(generations.get(id), {
					range: init.headers?.Range === void 0 ? void 0 : Number(/\d+/.exec(init.headers.Range)?.[0]),
					ifRange: init.headers?.["If-Range"],
					version: Number(version)
				}, isHealthy);
				arrive(1, () => resolve(() => mediaResponse(found, process, signal ?? void 0)));
			});
		});
		return async (url, init = {}) => {
			await process.call("request", () => {});
			const arrived = await exchange(url, init);
			return process.call("answer", arrived);
		};
	};
	return {
		generations,
		fetchFor,
		addCredits: (key, more) => void credits.set(key, (credits.get(key) ?? 0) + more),
		heal() {
			isHealthy = true;
			for (const generated of generations.values()) generated.lagMs = 0;
		},
		urlOf
	};
}
const finePlan = {
	does: "accepts it",
	answersAfterMs: 50,
	rendersMs: 1e3,
	ends: "completed",
	lagMs: 0,
	lostAfterMs: void 0,
	media: []
};
function responseOf({ status, text, headers = {}, isCut }) {
	const chunk = Buffer.from(text);
	return {
		status,
		headers: { get: (name) => headers[name.toLowerCase()] ?? null },
		body: { async *[Symbol.asyncIterator]() {
			yield chunk;
			if (isCut) throw systemError("UND_ERR_SOCKET");
		} },
		text: async () => text
	};
}
function mediaResponse({ status, headers, chunks, ending }, process, signal) {
	return {
		status,
		headers: { get: (name) => headers[name.toLowerCase()] ?? null },
		body: { async *[Symbol.asyncIterator]() {
			for (const chunk of chunks) {
				yield await process.call("answer", () => chunk);
				signal?.throwIfAborted();
			}
			if (ending === "cut") throw systemError("UND_ERR_SOCKET");
			if (ending === "stall") await new Promise((_, reject) => {
				if (signal?.aborted) reject(signal.reason);
				signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
			});
		} },
		text: async () => ""
	};
}
function systemError(code) {
	return Object.assign(/* @__PURE__ */ new Error(`${code.toLowerCase()} on purpose`), { code });
}
// test/simulation/people.ts
const home = "/home/vidgen";
const journalPath = `${home}/journal.jsonl`;
const work = "/work";
const model = "wan-2.5";
/** Runs a command to its end; never resolves when its process is killed. Speaks into `said`, as it goes. */
async function type(run) {
	const { command, said } = run;
	try {
		if (command.type === "generate") await generate(command, run);
		else if (command.type === "wait --all") await waitAll(command, run);
		else if (command.type === "batch") await batch(command, run);
		else if (command.type === "mcp") await mcp(command, run);
		else await dismissAll(run);
	} catch (error) {
		fail(said, error);
	}
}
function fail(said, thrown) {
	const error = asVidgenError(thrown);
	if (said.code !== exits.unknown.exit) said.code = Math.max(said.code, error.exit);
	if (error.code === "unknown") said.code = exits.unknown.exit;
	said.lines.push(textOf(error));
}
function textOf({ message, hint = "", id = "" }) {
	return [
		message,
		hint,
		id
	].join("\n");
}
function open({ process, key, fetch, said }) {
	const onNote = (text) => void said.lines.push(text);
	const journal = openJournal(journalPath, {
		...process.machine,
		signal: process.signal,
		onNote
	});
	return {
		journal,
		client: createClient({
			baseUrl: serviceUrl,
			apiKey: key,
			journal,
			onNote
		}, ioOf(process, fetch))
	};
}
/** As `generate` in `src/cli/commands/generate.ts`. */
async function generate(command, run) {
	const { said, process } = run;
	const { signal, leave } = process;
	const { prompt, place, earlier, noWait, overwrite, timeoutMs } = command;
	const { client } = open(run);
	const request = {
		prompt,
		model
	};
	const begun = await client.begin(request, {
		place,
		overwrite,
		earlier,
		noWait,
		signal
	}).catch((error) => {
		throw beforePaying(error);
	});
	try {
		let id;
		if (begun.kind === "resumed") {
			id = begun.earlier.id;
			said.lines.push(`Resuming ${id}.`);
			if (begun.file !== void 0) {
				said.files.push({
					id,
					file: begun.file
				});
				return;
			}
		} else {
			const end = await begun.sendUntilKnown({
				signal,
				leave
			});
			if (end.kind !== "accepted") throw end.error;
			id = end.started.generation.id;
			said.lines.push(`Started ${id}.`);
		}
		if (noWait) {
			said.lines.push(id);
			signal.throwIfAborted();
			return;
		}
		try {
			if (begun.target) {
				const { file } = await client.download(id, begun.target, {
					signal,
					timeoutMs,
					overwrite
				});
				said.files.push({
					id,
					file
				});
			} else {
				const { videoUrl } = await client.follow(id, {
					signal,
					timeoutMs
				});
				said.lines.push(videoUrl);
			}
		} catch (error) {
			throw asVidgenError(error).with({ id });
		}
	} catch (error) {
		fail(said, error);
	} finally {
		await begun.release();
	}
}
/** As `waitForAll` in `src/cli/commands/wait.ts`. */
async function waitAll({ place, timeoutMs }, run) {
	const { said, process } = run;
	const { signal } = process;
	const { client, journal } = open(run);
	const found = (await journal.entries()).filter(isOpen).flatMap(({ id }) => id ?? []);
	const follow = async (id, index) => {
		const saved = place === void 0 ? void 0 : await client.findSaved(id, place).catch(() => void 0);
		if (saved !== void 0) return void said.files.push({
			id,
			file: saved
		});
		const target = place === void 0 ? void 0 : await client.claim(place, {
			id,
			first: index + 1,
			resume: true
		});
		try {
			if (target) {
				const { file } = await client.download(id, target, {
					signal,
					timeoutMs
				});
				said.files.push({
					id,
					file
				});
			} else {
				const { videoUrl } = await client.follow(id, {
					signal,
					timeoutMs
				});
				said.lines.push(`${id} ${videoUrl}`);
			}
		} finally {
			await target?.release();
		}
	};
	await Promise.all([...new Set(found)].reverse().map((id, index) => follow(id, index).catch((error) => fail(said, asVidgenError(error).with({ id })))));
}
/** As `dismiss` of `vidgen list`, for each attempt that it lists as unknown. */
async function dismissAll(run) {
	const { said, process } = run;
	const { journal } = open(run);
	const output = { note: (text) => void said.lines.push(text) };
	const io = ioOf(process, run.fetch);
	const isWanted = ({ status }) => status === "unknown" || status === "starting" || status === "lost";
	for (const { attempt } of (await journal.entries()).filter(isWanted)) await dismissAttempt(attempt, journal, {
		io,
		output
	}).catch((error) => fail(said, error));
}
/** The rows of the file: each with an id of its own, saved beside it. */
function rowsOf(count) {
	return Array.from({ length: count }, (_, index) => {
		const request = {
			prompt: `row ${index + 1}`,
			model
		};
		return {
			id: `r${index + 1}`,
			line: index + 1,
			record: request,
			load: async () => request,
			place: `${work}/r${index + 1}.mp4`
		};
	});
}
/** As `vidgen batch` with --yes. */
async function batch(command, run) {
	const { said, process } = run;
	const { signal, leave } = process;
	const { client, journal } = open(run);
	const { file, shard, retryFailed, retryUnknown, maxCredits, jobs } = command;
	const keyed = keyRows(rowsOf(command.rows));
	const own = shard ? keyed.filter((row) => shardOf(row, shard.of) === shard.index) : keyed;
	const results = `${file}${shard ? `.${shard.index}-of-${shard.of}` : ""}.results.jsonl`;
	const onNote = (text) => void said.lines.push(text);
	const opened = await openBatch(own, {
		results,
		source: {
			file,
			total: keyed.length,
			shard: shard ? `${shard.index}/${shard.of}` : null
		},
		retryFailed,
		retryUnknown,
		onNote
	}, {
		client,
		journal,
		io: process.machine
	});
	try {
		const tally = createCounts(opened.plan);
		const end = await opened.run({
			jobs,
			maxCredits,
			signal,
			leave,
			onNote,
			onEvent(event) {
				tally.take(event);
				if (event.event === "started") said.lines.push(`Started ${event.id}.`);
				if (event.event === "ended" && event.error) said.lines.push(JSON.stringify(event));
				if (event.event === "ended" && event.id && event.file) said.files.push({
					id: event.id,
					file: event.file
				});
			}
		});
		const flags = {
			file,
			command: { options: [] }
		};
		const error = endOfBatch(opened, {
			end,
			counts: tally.counts
		}, {
			results,
			isLocal: false,
			flags
		}, {
			env: {},
			signal
		});
		if (error) fail(said, error);
	} finally {
		await opened.close();
	}
}
/** An agent that calls `generate_video` now and then. */
async function mcp({ calls, maxCredits }, run) {
	const { said, process } = run;
	const { client, journal } = open(run);
	const io = {
		...ioOf(process, run.fetch),
		leave: process.leave
	};
	const session = {
		client,
		isLocal: false
	};
	const start = createStarts({
		services: {
			journal,
			open: async () => session
		},
		maxCredits,
		ending: process.signal
	}, io);
	for (const { prompt, again, cancels } of calls) {
		if (process.signal.aborted) return;
		const cancelled = new AbortController();
		if (cancels) process.after(30, () => cancelled.abort());
		await start({
			prompt,
			model
		}, {
			again,
			cancelled: cancelled.signal
		}).then(({ id }) => void said.lines.push(`Started ${id}.`), (error) => fail(said, error));
		await process.machine.sleep(1e3);
	}
}
/** The end of a process that was told twice to end. */
function leaveAtOnce(run) {
	run.said.code = codeOfLeaving(run.process);
}
// test/simulation/plan.ts
const prompts = [
	"a fox",
	"waves",
	`a fox at ${keys[0]}`
];
/** The story that a seed stands for. */
function planOf(seed) {
	const random = createRandom(seed);
	const chance = (share) => random.next() < share;
	const isShared = chance(.35);
	const computers = Array.from({ length: isShared ? random.between(2, 3) : 1 }, () => ({ aheadMs: clockError(random) }));
	const kind = random.pick([
		"generate",
		"generate",
		"generate",
		"reuse",
		"batch",
		"batch",
		"mcp",
		"mixed"
	]);
	const acts = [];
	const commands = random.between(2, 5);
	/** So that many stories are about one request: then its runs are the same. */
	const range = chance(.8) ? 1 : 2;
	for (let index = 0; index < commands; index++) {
		if (chance(.08)) {
			const what = random.pick([
				"clock",
				"reboot",
				"credits"
			]);
			const computer = random.between(0, computers.length - 1);
			const when = {
				gapMs: gap(random),
				waits: chance(.5)
			};
			if (what === "clock") acts.push({
				what,
				computer,
				aheadMs: clockError(random),
				...when
			});
			else if (what === "reboot") acts.push({
				what,
				computer,
				...when
			});
			else acts.push({
				what,
				more: random.pick([
					10,
					20,
					500,
					-20
				]),
				...when
			});
		}
		acts.push({
			what: "command",
			name: String.fromCharCode(65 + index),
			command: commandOf(kind, random, range),
			computer: random.between(0, computers.length - 1),
			namespace: chance(.85) ? "1" : "2",
			key: chance(.93) ? 0 : 1,
			callMs: 10 ** (random.next() * 3 - 2),
			starts: Array.from({ length: random.between(0, 2) }, () => startOf(random)),
			mishaps: chance(.6) ? mishapsOf(random) : [],
			gapMs: gap(random),
			waits: chance(.55)
		});
	}
	const troubles = chance(.35) ? [troubleOf(random)] : [];
	return {
		seed,
		computers,
		hasStartTimes: chance(.85),
		instant: random.pick([
			0,
			.5,
			.8,
			.9
		]),
		troubles,
		acts
	};
}
function clockError(random) {
	if (random.next() < .5) return 0;
	return random.pick([
		-18e4,
		-9e4,
		-5e3,
		5e3,
		9e4,
		18e4,
		-Date.UTC(2026, 5, 1)
	]);
}
function gap(random) {
	return random.pick([
		0,
		0,
		1,
		5,
		20,
		100,
		1e3,
		1e4,
		65e3,
		13e4,
		31e4
	]);
}
function commandOf(kind, random, range) {
	const chance = (share) => random.next() < share;
	if (chance(.07)) return { type: "list --dismiss" };
	if (chance(.14)) return {
		type: "wait --all",
		place: chance(.8) ? `${work}/` : void 0,
		timeoutMs: timeoutOf(random)
	};
	const isMixed = kind === "mixed";
	if (kind === "batch" || isMixed && chance(.3)) {
		const of = random.pick([
			0,
			0,
			0,
			2,
			3
		]);
		return {
			type: "batch",
			rows: random.between(1, 3),
			shard: of === 0 ? void 0 : {
				index: random.between(1, of),
				of
			},
			file: `${work}/${chance(.9) ? "shots.csv" : "link.csv"}`,
			retryUnknown: chance(.1),
			retryFailed: chance(.1),
			maxCredits: chance(.2) ? random.pick([
				10,
				15,
				20
			]) : void 0,
			jobs: random.between(1, 3)
		};
	}
	const prompt = (chance(.03) ? prompts[2] : prompts[random.between(0, range - 1)]) ?? "";
	if (kind === "mcp" || isMixed && chance(.3)) return {
		type: "mcp",
		calls: Array.from({ length: random.between(1, 2) }, () => ({
			prompt: chance(.85) ? prompt : random.pick(prompts),
			again: chance(.1),
			cancels: chance(.1)
		})),
		maxCredits: chance(.15) ? random.pick([10, 20]) : void 0
	};
	const noWait = chance(.12);
	const again = chance(.08);
	const reuse = kind === "reuse" ? chance(.8) : chance(.1);
	let earlier = "resume";
	if (again) earlier = "again";
	else if (reuse) earlier = "reuse";
	const place = random.pick([
		`${work}/a.mp4`,
		`${work}/a.mp4`,
		`${work}/a.mp4`,
		`${work}/b.mp4`,
		`${work}/`,
		void 0
	]);
	return {
		type: "generate",
		prompt,
		place: noWait ? void 0 : place,
		earlier,
		noWait,
		overwrite: chance(.07),
		timeoutMs: timeoutOf(random)
	};
}
function timeoutOf(random) {
	return random.pick([
		9e5,
		9e5,
		9e5,
		2e4
	]);
}
const startNames = Object.keys(startBehaviours);
function startOf(random) {
	const chance = (share) => random.next() < share;
	return {
		does: chance(.4) ? "accepts it" : random.pick(startNames),
		answersAfterMs: random.pick([
			1,
			50,
			50,
			500,
			5e3,
			5e4,
			119e3,
			125e3
		]),
		rendersMs: random.pick([
			0,
			1e3,
			8e3,
			2e4,
			6e4
		]),
		ends: chance(.9) ? "completed" : "failed",
		lagMs: chance(.8) ? 0 : random.pick([
			2e3,
			2e4,
			5e4
		]),
		lostAfterMs: chance(.94) ? void 0 : random.pick([
			0,
			5e3,
			4e4
		]),
		media: chance(.6) ? [] : Array.from({ length: random.between(1, 3) }, () => random.pick(mediaNames))
	};
}
const mediaNames = Object.keys(mediaBehaviours);
function mishapsOf(random) {
	return Array.from({ length: random.next() < .75 ? 1 : 2 }, () => {
		const on = random.pick(callKinds);
		return {
			on,
			nth: random.between(1, mostCalls[on]),
			isAfter: random.next() < .5,
			what: random.pick([
				"killed",
				"killed",
				"frozen",
				"frozen",
				"Ctrl-C"
			]),
			ms: random.pick([
				0,
				10,
				500,
				15e3,
				63e3,
				95e3,
				2e5,
				4e5
			])
		};
	});
}
/** About as many calls of each kind as a command makes. */
const mostCalls = {
	any: 250,
	read: 30,
	write: 40,
	sync: 12,
	name: 20,
	look: 60,
	request: 6,
	answer: 8
};
function troubleOf(random) {
	const from = random.pick([
		0,
		0,
		1e3,
		1e4,
		6e4
	]);
	return {
		does: random.pick(Object.keys(statusBehaviours)),
		from,
		until: from + random.pick([
			5e3,
			3e4,
			7e4,
			2e5,
			6e5
		])
	};
}
// test/simulation/shrink.ts
/** The plan with one thing less in it, or something plainer: each way that there is. */
function* simpler(plan) {
	for (const index of plan.acts.keys()) yield {
		...plan,
		acts: plan.acts.toSpliced(index, 1)
	};
	if (plan.troubles.length > 0) yield {
		...plan,
		troubles: []
	};
	for (const [index, act] of plan.acts.entries()) for (const plainer of simplerActs(act)) yield {
		...plan,
		acts: plan.acts.with(index, plainer)
	};
	if (plan.computers.some(({ aheadMs }) => aheadMs !== 0)) yield {
		...plan,
		computers: plan.computers.map(() => ({ aheadMs: 0 }))
	};
	if (!plan.hasStartTimes) yield {
		...plan,
		hasStartTimes: true
	};
}
function* simplerActs(act) {
	if (!act.waits) yield {
		...act,
		waits: true
	};
	if (act.gapMs > 1e3) yield {
		...act,
		gapMs: 1e3
	};
	if (act.what !== "command") return;
	for (const index of act.mishaps.keys()) yield {
		...act,
		mishaps: act.mishaps.toSpliced(index, 1)
	};
	if (act.starts.length > 0) yield {
		...act,
		starts: act.starts.slice(0, -1)
	};
	for (const [index, start] of act.starts.entries()) {
		const plainer = [
			{
				...start,
				media: []
			},
			{
				...start,
				lagMs: 0,
				lostAfterMs: void 0
			},
			{
				...start,
				does: "accepts it"
			},
			{
				...start,
				answersAfterMs: 50
			},
			{
				...start,
				rendersMs: 1e3
			}
		];
		for (const each of plainer) if (JSON.stringify(each) !== JSON.stringify(start)) yield {
			...act,
			starts: act.starts.with(index, each)
		};
	}
	if (act.key !== 0) yield {
		...act,
		key: 0
	};
	if (act.namespace !== "1") yield {
		...act,
		namespace: "1"
	};
	if (act.callMs !== 1) yield {
		...act,
		callMs: 1
	};
	const { command } = act;
	if (command.type === "batch") {
		if (command.rows > 1) yield {
			...act,
			command: {
				...command,
				rows: 1
			}
		};
		if (command.jobs > 1) yield {
			...act,
			command: {
				...command,
				jobs: 1
			}
		};
		if (command.maxCredits !== void 0) yield {
			...act,
			command: {
				...command,
				maxCredits: void 0
			}
		};
	}
	if (command.type === "mcp" && command.calls.length > 1) yield {
		...act,
		command: {
			...command,
			calls: command.calls.slice(0, 1)
		}
	};
	if (command.type === "generate" && command.overwrite) yield {
		...act,
		command: {
			...command,
			overwrite: false
		}
	};
}
/** The plainest plan that still breaks the same rule. `breaks` plays one. */
async function shrink(plan, breaks) {
	let least = plan;
	for (let isSimpler = true; isSimpler;) {
		isSimpler = false;
		for (const each of simpler(least)) {
			if (!await breaks(each)) continue;
			least = each;
			isSimpler = true;
			break;
		}
	}
	return least;
}
// test/simulation/disk.ts
function createDisk(now) {
	let inodes = 0;
	let fds = 10;
	const handles = /* @__PURE__ */ new Map();
	const create = (kind) => ({
		ino: ++inodes,
		kind,
		mtimeMs: now(),
		birthtimeMs: now(),
		bytes: noBytes,
		size: 0,
		entries: kind === "folder" ? /* @__PURE__ */ new Map() : noEntries,
		target: "",
		durable: kind === "file" ? noBytes : void 0,
		changes: [],
		dirtyBy: void 0
	});
	const root = create("folder");
	const watchers = [];
	const tell = (change, who) => {
		for (const watch of watchers) watch(change, who);
	};
	/** The folder and the name that a path stands for, all links but the last one followed. */
	const locate = (path, depth = 0) => {
		if (depth > 8) throw failure("ELOOP", path);
		const { names, last } = partsOf(path);
		let folder = root;
		for (let index = 0; index < names.length; index++) {
			const found = folder.entries.get(names[index] ?? "");
			if (found === void 0) throw failure("ENOENT", path);
			if (found.kind === "link") return locate(posix.join(found.target, ...names.slice(index + 1), last), depth + 1);
			if (found.kind !== "folder") throw failure("ENOTDIR", path);
			folder = found;
		}
		return {
			folder,
			name: last
		};
	};
	const find = (path, follows = true, depth = 0) => {
		const { folder, name } = locate(path);
		const found = name === "" ? folder : folder.entries.get(name);
		if (found?.kind !== "link" || !follows) return found;
		if (depth > 8) throw failure("ELOOP", path);
		return find(found.target, true, depth + 1);
	};
	const need = (path, follows = true) => {
		const found = find(path, follows);
		if (found === void 0) throw failure("ENOENT", path);
		return found;
	};
	/** One change of a folder, of one or two names: a crash keeps all of it or nothing. */
	const change = (folder, ...names) => {
		const changed = names.map(([name, after]) => ({
			name,
			before: folder.entries.get(name),
			after
		}));
		for (const [name, after] of names) if (after) folder.entries.set(name, after);
		else folder.entries.delete(name);
		folder.changes.push(changed);
	};
	const statOf = (inode) => ({
		ino: inode.ino,
		size: inode.size,
		mtimeMs: inode.mtimeMs,
		birthtimeMs: inode.birthtimeMs,
		isFile: () => inode.kind === "file",
		isDirectory: () => inode.kind === "folder",
		isSymbolicLink: () => inode.kind === "link"
	});
	const contentOf = (inode) => inode.bytes.subarray(0, inode.size);
	const write = (handle, bytes, position, who) => {
		const { inode } = handle;
		if (!handle.isOpen) throw failure("EBADF", handle.path);
		keepDurable(inode, who);
		const start = handle.appends || position === null ? inode.size : position;
		const end = start + bytes.length;
		if (end > inode.bytes.length) {
			const grown = Buffer.alloc(Math.max(2 * inode.bytes.length, end, 256));
			inode.bytes.copy(grown, 0, 0, inode.size);
			inode.bytes = grown;
		}
		bytes.copy(inode.bytes, start);
		inode.size = Math.max(inode.size, end);
		inode.mtimeMs = now();
		tell({
			kind: "write",
			path: handle.path,
			bytes,
			at: start
		}, who);
		return bytes.length;
	};
	const keepDurable = (inode, who) => {
		if (inode.dirtyBy === void 0) inode.durable = Buffer.from(contentOf(inode));
		const { name } = who.computer;
		inode.dirtyBy = inode.dirtyBy === void 0 || inode.dirtyBy === name ? name : "several";
	};
	const named = (path, inode, who) => inode.kind === "file" && tell({
		kind: "name",
		path,
		bytes: contentOf(inode)
	}, who);
	return {
		constants,
		watch: (watcher) => void watchers.push(watcher),
		access(path) {
			need(path);
		},
		mkdir(path, options) {
			if (!options?.recursive) {
				const { folder, name } = locate(path);
				if (folder.entries.has(name)) throw failure("EEXIST", path);
				change(folder, [name, create("folder")]);
				return;
			}
			let folder = root;
			for (const name of path.split("/")) {
				if (name === "" || name === ".") continue;
				let found = folder.entries.get(name);
				if (found?.kind === "link") found = need(found.target);
				if (found === void 0) {
					found = create("folder");
					change(folder, [name, found]);
				}
				if (found.kind !== "folder") throw failure("ENOTDIR", path);
				folder = found;
			}
		},
		readdir(path) {
			const found = need(path);
			if (found.kind !== "folder") throw failure("ENOTDIR", path);
			return [...found.entries.keys()];
		},
		realpath(path) {
			const { folder, name } = locate(path);
			const found = folder.entries.get(name);
			if (found === void 0 && name !== "") throw failure("ENOENT", path);
			if (found?.kind === "link") return this.realpath(found.target);
			return posix.normalize(path);
		},
		symlink(target, path) {
			const { folder, name } = locate(path);
			if (folder.entries.has(name)) throw failure("EEXIST", path);
			change(folder, [name, Object.assign(create("link"), { target })]);
		},
		stat: (path) => statOf(need(path)),
		lstat: (path) => statOf(need(path, false)),
		utimes(path, _, mtime) {
			need(path).mtimeMs = mtime.getTime();
		},
		link(from, to, who) {
			const found = need(from, false);
			const { folder, name } = locate(to);
			if (folder.entries.has(name)) throw failure("EEXIST", to);
			change(folder, [name, found]);
			named(to, found, who);
		},
		rename(from, to, who) {
			const [source, target] = [locate(from), locate(to)];
			const found = source.folder.entries.get(source.name);
			if (found === void 0) throw failure("ENOENT", from);
			const old = target.folder.entries.get(target.name);
			if (old === found) return;
			if (old && found.kind === "folder" && old.kind !== "folder") throw failure("ENOTDIR", to);
			if (old && found.kind !== "folder" && old.kind === "folder") throw failure("EISDIR", to);
			if (old?.kind === "folder" && old.entries.size > 0) throw failure("ENOTEMPTY", to);
			if (source.folder === target.folder) change(source.folder, [source.name, void 0], [target.name, found]);
			else {
				change(target.folder, [target.name, found]);
				change(source.folder, [source.name, void 0]);
			}
			named(to, found, who);
		},
		rm(path, options) {
			let found;
			try {
				found = need(path, false);
			} catch (error) {
				if (options?.force) return;
				throw error;
			}
			if (found.kind === "folder" && !options?.recursive) throw failure("ERR_FS_EISDIR", path);
			const { folder, name } = locate(path);
			change(folder, [name, void 0]);
		},
		rmdir(path) {
			const found = need(path, false);
			if (found.kind !== "folder") throw failure("ENOTDIR", path);
			if (found.entries.size > 0) throw failure("ENOTEMPTY", path);
			const { folder, name } = locate(path);
			change(folder, [name, void 0]);
		},
		open(path, flags) {
			let inode = find(path);
			if (inode && flags.includes("x")) throw failure("EEXIST", path);
			if (!inode && flags.startsWith("r")) throw failure("ENOENT", path);
			if (inode?.kind === "folder" && flags !== "r") throw failure("EISDIR", path);
			if (inode === void 0) {
				const { folder, name } = locate(path);
				inode = create("file");
				change(folder, [name, inode]);
			}
			const handle = {
				fd: ++fds,
				inode,
				path: posix.resolve("/", path),
				appends: flags.startsWith("a"),
				isOpen: true
			};
			handles.set(handle.fd, handle);
			return handle;
		},
		close(handle) {
			if (!handle.isOpen) throw failure("EBADF", handle.path);
			handle.isOpen = false;
			handles.delete(handle.fd);
		},
		fstat: ({ inode }) => statOf(inode),
		read({ inode, isOpen, path }, length, position) {
			if (!isOpen) throw failure("EBADF", path);
			if (inode.kind === "folder") throw failure("EISDIR", path);
			return inode.bytes.subarray(Math.min(position, inode.size), Math.min(position + length, inode.size));
		},
		write,
		writeTo(fd, bytes, position, who) {
			const handle = handles.get(fd);
			if (handle === void 0) throw failure("EBADF", String(fd));
			return write(handle, bytes, position, who);
		},
		truncate(handle, length, who) {
			if (!handle.isOpen) throw failure("EBADF", handle.path);
			keepDurable(handle.inode, who);
			handle.inode.bytes.fill(0, length);
			handle.inode.size = length;
		},
		/** A file with its name, or a folder with its names, outlasts a crash from now on. */
		sync({ inode, path }) {
			if (inode.kind === "folder") {
				inode.changes = [];
				return;
			}
			inode.dirtyBy = void 0;
			inode.durable = void 0;
			for (let at = inode, from = path; at !== root; from = posix.dirname(from)) {
				const { folder } = locate(from);
				const child = at;
				const last = folder.changes.findLastIndex((names) => names.some(({ after }) => after === child));
				folder.changes.splice(0, last + 1);
				at = folder;
			}
		},
		/** Everything that is there now outlasts a crash. */
		settle() {
			const visit = (inode) => {
				inode.changes = [];
				for (const each of inode.entries.values()) visit(each);
			};
			visit(root);
		},
		/** Power is lost: of what was not synced something, or nothing, is left. With `who`, of what that machine alone has written. */
		crash(random, who) {
			const seen = /* @__PURE__ */ new Set();
			const visit = (inode) => {
				if (seen.has(inode)) return;
				seen.add(inode);
				if (inode.kind === "folder") {
					if (who === void 0) undo(inode, random);
					for (const each of [...inode.entries.values()]) visit(each);
				} else if (inode.dirtyBy !== void 0 && (who === void 0 || inode.dirtyBy === who)) tear(inode, random);
			};
			visit(root);
		},
		/** All files by their paths, for whoever checks them. */
		files() {
			const found = /* @__PURE__ */ new Map();
			const visit = (inode, path) => {
				if (inode.kind === "file") found.set(path, contentOf(inode));
				for (const [name, each] of inode.entries) visit(each, `${path}/${name}`);
			};
			visit(root, "");
			return found;
		},
		content(path) {
			try {
				const found = find(path);
				return found?.kind === "file" ? contentOf(found) : void 0;
			} catch {
				return;
			}
		}
	};
}
const noBytes = Buffer.alloc(0);
const noEntries = /* @__PURE__ */ new Map();
/** Keeps the oldest of the changes that were not synced, as a file system with a journal does. */
function undo(folder, random) {
	const kept = random.between(0, folder.changes.length);
	for (const names of folder.changes.slice(kept).reverse()) for (const { name, before } of names.toReversed()) if (before) folder.entries.set(name, before);
	else folder.entries.delete(name);
	folder.changes = [];
}
/** Keeps the beginning of what was written since the last sync: all, nothing, or half of a line. */
function tear(inode, random) {
	const { durable = noBytes } = inode;
	const how = random.between(0, 2);
	if (how === 1) {
		inode.bytes = Buffer.from(durable);
		inode.size = durable.length;
	} else if (how === 2 && inode.size > durable.length) inode.size = random.between(durable.length, inode.size);
	inode.dirtyBy = void 0;
	inode.durable = void 0;
}
/** A story asks for the same few paths thousands of times. */
const parts = /* @__PURE__ */ new Map();
function partsOf(path) {
	const known = parts.get(path);
	if (known) return known;
	const names = path.split("/").filter((name) => name !== "" && name !== ".");
	const found = {
		last: names.pop() ?? "",
		names
	};
	if (parts.size > 1e4) parts.clear();
	parts.set(path, found);
	return found;
}
function failure(code, path) {
	return Object.assign(/* @__PURE__ */ new Error(`${code}: ${path}`), {
		code,
		path
	});
}
// test/simulation/rules.ts
var Broken = class extends Error {
	rule;
	constructor(rule, message) {
		super(message);
		this.rule = rule;
	}
};
const hourMs = 36e5;
/** The six points of the simulation: each throws `Broken` as soon as it does not hold. */
function createRules(options) {
	const { now, journal, contentOf } = options;
	const attempts = /* @__PURE__ */ new Map();
	const runs = /* @__PURE__ */ new Map();
	const written = /* @__PURE__ */ new Set();
	let intents = 0;
	const byId = (id) => [...attempts.values()].filter((each) => each.id === id.toLowerCase());
	const runOf = (process) => {
		const run = runs.get(process);
		if (run === void 0) throw new Error("nobody has started that process");
		return run;
	};
	function onLine(line, process) {
		const { kind, attempt, id } = line;
		const known = attempts.get(String(attempt));
		if (kind === "intent" && process && known === void 0) {
			const run = runOf(process);
			const { command } = run;
			attempts.set(String(attempt), {
				attempt: String(attempt),
				run,
				place: intents++,
				prompt: line.request.prompt,
				output: line.place,
				intentAt: now(),
				kind: kindOf(line),
				noWait: line.no_wait === true,
				row: line.row,
				rowsFile: command.type === "batch" ? "shots.csv" : void 0,
				posts: [],
				delivered: [],
				holders: [process],
				overFor: /* @__PURE__ */ new Set(),
				id: void 0,
				isDismissed: false,
				hasFailed: false,
				isAddressTold: false
			});
		}
		if (kind === "accepted") written.add(String(id).toLowerCase());
		if (kind === "claim" && process) known?.holders.push(process);
		if (kind === "dismissed" && known) known.isDismissed = true;
		if (kind === "saved" && typeof id === "string" && line.file !== "-") onSaved(id, String(line.file));
	}
	function onSaved(id, file) {
		const bytes = contentOf(file);
		if (bytes === void 0) return;
		const found = idOfVideo(bytes);
		if (found === void 0) throw new Broken(3, `${file} is written down as saved, and is no whole video`);
		if (found !== id.toLowerCase()) throw new Broken(3, `${file} is written down as the video of ${id}, and is that of ${found}`);
	}
	/** Whether the rules allow another start beside this attempt. */
	function allows(other, mine) {
		if (other.posts.length === 0) return true;
		if (other.isDismissed || other.overFor.has("all")) return true;
		if (mine.kind === "batch") return false;
		const { command } = mine.run;
		const isReuse = mine.kind === "mcp" || command.type === "generate" && command.earlier === "reuse";
		const ageMs = mine.intentAt - other.intentAt;
		if (isReuse) return ageMs >= 24 * hourMs;
		if (ageMs >= 12 * hourMs || other.overFor.has("generate")) return true;
		if (other.noWait && other.id !== void 0) return true;
		return other.holders.some(({ endedAt = now() }) => endedAt > mine.run.process.startedAt);
	}
	/** Whether the two ask for the same run. */
	function isSame(other, mine) {
		if (other.kind !== mine.kind) return false;
		if (mine.kind === "batch") return other.row === mine.row && other.rowsFile === mine.rowsFile;
		if (other.prompt !== mine.prompt) return false;
		const { command } = mine.run;
		return mine.kind === "mcp" || command.type === "generate" && command.earlier === "reuse" ? true : other.output === mine.output;
	}
	function isAgain(mine) {
		const { command } = mine.run;
		if (command.type === "generate") return command.earlier === "again";
		if (command.type === "mcp") return command.calls.some(({ again }) => again);
		return command.type === "batch" && (command.retryUnknown || command.retryFailed);
	}
	return {
		isWritten: (id) => written.has(id),
		onRun: (run) => void runs.set(run.process, run),
		onLine,
		onTheEnd,
		onName(path, bytes) {
			if (/\.mp4$/.test(path) && idOfVideo(bytes) === void 0) throw new Broken(3, `${path} is given to what is no whole video`);
		},
		onPost(process, post) {
			const mine = attempts.get(post.attempt);
			if (mine === void 0) throw new Broken(1, "a start was sent that nobody had written down");
			mine.posts.push(post);
			if (post.generated) mine.id = post.generated.id;
			const before = mine.posts.slice(0, -1).find(({ behaviour }) => behaviour.means !== "later");
			if (before) throw new Broken(1, `${process.name} sent attempt ${mine.attempt} again after "${before.does}"`);
			if (isAgain(mine)) return;
			const earlier = [...attempts.values()].filter((other) => other !== mine && other.place < mine.place);
			for (const other of earlier) if (isSame(other, mine) && !allows(other, mine)) {
				const first = other.posts.at(-1);
				throw new Broken(1, `${process.name} starts ${nameOf(mine)} again, which ${other.run.process.name} has started: the service "${first?.does}" then`);
			}
		},
		onDelivered(_, post) {
			const mine = attempts.get(post.attempt);
			mine?.delivered.push(post);
			if (post.behaviour.means === "refused") mine?.overFor.add("all");
			if (post.behaviour.means === "later") mine?.overFor.add("all");
			else if (post.behaviour.means !== "refused") mine?.overFor.delete("all");
		},
		onStatusDelivered(id, text) {
			for (const each of byId(id)) {
				if (text.includes("\"failed\"")) {
					each.overFor.add("all");
					each.hasFailed = true;
				}
				if (!text.includes("\"completed\"") || text.includes("\"video_url\":null")) continue;
				if (each.output !== void 0) continue;
				each.isAddressTold = true;
				if (each.kind === "generate") each.overFor.add("generate");
			}
		},
		/** A video stands under its name. */
		onVideo(id) {
			for (const each of byId(id)) each.overFor.add("generate");
		},
		/** What a process says at its end must be true. */
		onEnd({ process, said, command }) {
			const mine = [...attempts.values()].filter((each) => each.run.process === process && each.posts.length > 0);
			const text = said.lines.join("\n");
			const written = journal();
			for (const { posts, delivered } of mine) for (const { generated, behaviour } of posts) {
				if (generated === void 0) continue;
				const isTold = text.includes(generated.id);
				const isRefused = delivered.some((each) => each.behaviour.means === "refused");
				if (said.code !== 6 && !isTold && !isRefused) throw new Broken(4, `${process.name} ends with ${said.code} and without the id of ${generated.id}, which was charged`);
				if (behaviour.hasId && delivered.some((each) => each.generated === generated) && !isTold && !written.includes(generated.id)) throw new Broken(2, `${process.name} got the id ${generated.id}, and it is nowhere`);
			}
			if (command.type === "generate" && /Nothing was sent(,| now)/.test(text) && mine.length > 0) throw new Broken(4, `${process.name} says that nothing was sent`);
			if (command.type === "generate" && said.code === 0 && command.place !== void 0 && !command.noWait) {
				if (said.files.length === 0) throw new Broken(4, `${process.name} ends with 0, and has saved nothing`);
			}
			for (const { id, file } of said.files) {
				const bytes = contentOf(file);
				const found = bytes && idOfVideo(bytes);
				if (bytes && found !== id.toLowerCase()) throw new Broken(3, `${process.name} says that ${file} is the video of ${id}, and it is that of ${found}`);
			}
		}
	};
	/** After all faults somebody with each key has waited for everything: nothing that was paid for, and known here, may be missing. */
	function onTheEnd(files, generations, end) {
		const saved = new Set([...files.values()].map(idOfVideo));
		for (const each of attempts.values()) {
			const generated = generations.get(each.id ?? "");
			if (generated === void 0 || !written.has(generated.id) || generated.lostAt < end) continue;
			if (generated.ends === "failed" || each.isAddressTold || saved.has(generated.id)) continue;
			throw new Broken(2, `the video of ${generated.id}, which was paid for, is saved nowhere`);
		}
		for (const [path, bytes] of files) for (const key of keys) if (bytes.includes(key) || bytes.includes(Buffer.from(key).toString("base64"))) throw new Broken(6, `${path} holds a key`);
	}
	function nameOf({ kind, prompt, row }) {
		return kind === "batch" ? `row ${row}` : `"${prompt}"`;
	}
}
function kindOf(line) {
	if (line.batch !== void 0) return "batch";
	return line.mcp === true ? "mcp" : "generate";
}
// test/simulation/schedule.ts
/** The one place that decides what happens next: the least time, then the least order. A binary heap, since a story has thousands of steps. */
function createSchedule() {
	const heap = [];
	const cancelled = /* @__PURE__ */ new Set();
	let now = 0;
	let taken = 0;
	const isBefore = (a, b) => a.at < b.at || a.at === b.at && a.order < b.order;
	const at = (index) => heap[index];
	const swap = (a, b) => {
		const kept = at(a);
		heap[a] = at(b);
		heap[b] = kept;
	};
	const rise = (from) => {
		for (let index = from; index > 0;) {
			const parent = index - 1 >> 1;
			if (!isBefore(at(index), at(parent))) return;
			swap(index, parent);
			index = parent;
		}
	};
	const sink = () => {
		for (let index = 0;;) {
			const [left, right] = [2 * index + 1, 2 * index + 2];
			let least = index;
			if (left < heap.length && isBefore(at(left), at(least))) least = left;
			if (right < heap.length && isBefore(at(right), at(least))) least = right;
			if (least === index) return;
			swap(index, least);
			index = least;
		}
	};
	const next = () => {
		for (;;) {
			const first = heap[0];
			const last = heap.pop();
			if (first === void 0 || last === void 0) return void 0;
			if (first !== last) {
				heap[0] = last;
				sink();
			}
			if (!cancelled.delete(first)) return first;
		}
	};
	return {
		now: () => now,
		taken: () => taken,
		add(step) {
			heap.push(step);
			rise(heap.length - 1);
			return step;
		},
		cancel: (step) => void cancelled.add(step),
		run: (isOver, maxSteps) => new Promise((resolve, reject) => {
			const takeOne = () => {
				const step = isOver() || taken >= maxSteps ? void 0 : next();
				if (step === void 0) return resolve();
				taken++;
				now = Math.max(now, step.at);
				try {
					step.run();
				} catch (error) {
					return reject(error);
				}
				setImmediate(takeOne);
			};
			setImmediate(takeOne);
		})
	};
}
// test/simulation/words.ts
/** What happens in a story, in the words of a person who watches. */
function commandWords(command) {
	switch (command.type) {
		case "generate": {
			const { prompt, place, earlier, noWait, overwrite, timeoutMs } = command;
			return [
				`vidgen generate "${prompt}"`,
				...place === void 0 ? [] : [`-o ${place}`],
				...earlier === "resume" ? [] : [`--${earlier}`],
				...noWait ? ["--no-wait"] : [],
				...overwrite ? ["--overwrite"] : [],
				...timeoutWords(timeoutMs)
			].join(" ");
		}
		case "wait --all": {
			const { place, timeoutMs } = command;
			return [
				"vidgen wait --all",
				...place === void 0 ? [] : [`-o ${place}`],
				...timeoutWords(timeoutMs)
			].join(" ");
		}
		case "batch": {
			const { file, rows, shard, retryUnknown, retryFailed, maxCredits, jobs } = command;
			return [
				`vidgen batch ${file} (${rows === 1 ? "1 row" : `${rows} rows`}) --jobs ${jobs}`,
				...shard ? [`--shard ${shard.index}/${shard.of}`] : [],
				...retryUnknown ? ["--retry-unknown"] : [],
				...retryFailed ? ["--retry-failed"] : [],
				...maxCredits === void 0 ? [] : [`--max-credits ${maxCredits}`]
			].join(" ");
		}
		case "mcp": {
			const calls = command.calls.map(({ prompt, again, cancels }) => `"${prompt}"${again ? " again" : ""}${cancels ? ", and cancels it" : ""}`);
			return `vidgen mcp${command.maxCredits === void 0 ? "" : ` --max-credits ${command.maxCredits}`}, where an agent asks for ${calls.join(", then ")}`;
		}
		default: return "vidgen list --dismiss, for each attempt that is unclear";
	}
}
function timeoutWords(ms) {
	return ms === 9e5 ? [] : [`--timeout ${ms / 1e3}s`];
}
function whereWords({ computer, namespace, key }, plan) {
	return `${plan.computers.length > 1 ? ` on machine ${computer + 1}` : ""}${namespace === "1" ? "" : " in another container"}${key === 0 ? "" : " with another key"}`;
}
/** `last` is what was seen of the process before. */
function mishapWords(name, { what, on, nth, isAfter, ms }, last) {
	const call = `${isAfter ? "after" : "before"} ${callNames[on]} no. ${nth}`;
	const when = last === void 0 ? `, ${call}` : ` after it ${last} (${call})`;
	if (what === "frozen") return `${name} is frozen for ${ms / 1e3} s${when}`;
	return what === "killed" ? `${name} is killed${when}` : `${name} gets a Ctrl-C${when}`;
}
const callNames = {
	any: "its call",
	read: "its reading",
	write: "its writing",
	sync: "its fsync",
	name: "its change of a name",
	look: "its look at a file",
	request: "its request",
	answer: "its answer"
};
function lineWords(line) {
	const { kind, attempt, id, file } = line;
	const about = [attempt, id].flatMap((each) => typeof each === "string" ? [short(each)] : []);
	return [
		`has written down "${kind}"`,
		...about,
		...typeof file === "string" ? [file] : []
	].join(" ");
}
function short(id) {
	return id.slice(0, 8);
}
function clockWords(ms) {
	if (ms < -1e11) return "says 1970";
	if (ms === 0) return "is right";
	return ms > 0 ? `is ${ms / 1e3} s ahead` : `is ${-ms / 1e3} s behind`;
}
// test/simulation/story.ts
const maxSteps = 6e4;
/** Nobody waits for longer, with the longest time to wait of a command and all that may hold it up. */
const maxMs = 144e5;
/** Stack traces of the errors that a story is made of cost a third of its time. */
if (!process$1.env.STACKS) Error.stackTraceLimit = 0;
/** Plays a story to its end. The same plan gives the same story, to the byte. */
async function play(plan, { tells = false } = {}) {
	const schedule = createSchedule();
	const disk = createDisk(schedule.now);
	disk.mkdir(home, { recursive: true });
	disk.mkdir(work, { recursive: true });
	disk.close(disk.open(`${work}/shots.csv`, "w"));
	disk.symlink(`${work}/shots.csv`, `${work}/link.csv`);
	disk.settle();
	const lines = [];
	/** What was last seen of each process. */
	const last = /* @__PURE__ */ new Map();
	const tell = (text) => {
		if (tells) lines.push(`${(schedule.now() / 1e3).toFixed(3).padStart(9)} s  ${text()}`);
	};
	const tellOf = (name, text) => {
		if (!tells) return;
		last.set(name, text());
		tell(() => `${name} ${last.get(name)}`);
	};
	const computers = plan.computers.map(({ aheadMs }, index) => ({
		name: String(index + 1),
		boot: 1,
		disk,
		aheadMs,
		hasStartTimes: plan.hasStartTimes,
		processes: /* @__PURE__ */ new Set(),
		nextPid: 100
	}));
	const rules = createRules({
		now: schedule.now,
		journal: () => disk.content("/home/vidgen/journal.jsonl")?.toString("utf8") ?? "",
		contentOf: disk.content
	});
	let broken;
	const check = (work) => {
		try {
			if (!broken) work();
		} catch (error) {
			if (!(error instanceof Broken)) throw error;
			broken = {
				rule: error.rule,
				message: error.message
			};
			tell(() => `BROKEN: ${error.message}`);
		}
	};
	const service = createService({
		schedule,
		random: createRandom(`${plan.seed}/service`),
		troubles: plan.troubles,
		events: {
			onPost(process, post) {
				const id = post.generated ? ` (${short(post.generated.id)})` : "";
				tell(() => `the service gets the start of ${process.name} (attempt ${short(post.attempt)}): it ${post.does}${id}`);
				last.set(process.name, "has sent its start");
				check(() => rules.onPost(process, post));
			},
			onDelivered(process, post) {
				tellOf(process.name, () => "has got the answer");
				check(() => rules.onDelivered(process, post));
			},
			onStatusDelivered: (id, text) => check(() => rules.onStatusDelivered(id, text)),
			isWritten: rules.isWritten
		}
	});
	const runs = [];
	disk.watch((change, writer) => {
		if (change.kind === "name") {
			check(() => rules.onName(change.path, change.bytes));
			const id = /\.mp4$/.test(change.path) ? idOfVideo(change.bytes) : void 0;
			if (id !== void 0) {
				rules.onVideo(id);
				tellOf(writer.name, () => `has put the video of ${short(id)} at ${change.path}`);
			}
			return;
		}
		if (change.path !== "/home/vidgen/journal.jsonl") return;
		for (const text of change.bytes.toString("utf8").split("\n")) {
			const line = parse(text);
			if (line === void 0) continue;
			const process = runs.find((each) => each.process.name === writer.name)?.process;
			tellOf(writer.name, () => lineWords(line));
			check(() => rules.onLine(line, process));
		}
	});
	const run = (act) => {
		const computer = computers[act.computer];
		const process = createProcess({
			name: act.name,
			computer,
			namespace: act.namespace,
			random: createRandom(`${plan.seed}/${act.name}`),
			mishaps: act.mishaps,
			callMs: act.callMs,
			instant: plan.instant,
			onMishap: (mishap) => tell(() => mishapWords(act.name, mishap, last.get(act.name))),
			onSecondPress() {
				leaveAtOnce(current);
				finish();
			}
		}, schedule);
		const current = {
			command: act.command,
			process,
			key: keys[act.key] ?? keys[0],
			fetch: service.fetchFor(process, act.starts),
			said: {
				code: 0,
				lines: [],
				files: []
			}
		};
		runs.push(current);
		rules.onRun(current);
		tell(() => `${act.name} types ${commandWords(act.command)}${whereWords(act, plan)}`);
		if (computer.aheadMs !== 0) tell(() => `  (the clock there ${clockWords(computer.aheadMs)})`);
		const finish = () => {
			if (process.endedAt !== void 0) return;
			tell(() => `${act.name} ends with ${current.said.code}: ${current.said.lines.join(" | ").replaceAll("\n", " ")}`);
			check(() => rules.onEnd(current));
			process.end(false);
		};
		type(current).then(finish, (error) => {
			broken ??= {
				rule: 0,
				message: String(error?.stack ?? error)
			};
		});
		return new Promise((resolve) => process.onEnd(resolve));
	};
	const wait = (ms) => new Promise((resolve) => {
		schedule.add({
			at: schedule.now() + ms,
			order: -1,
			run: resolve
		});
	});
	const direct = async () => {
		let before = Promise.resolve();
		for (const act of plan.acts) {
			if (act.waits) await before;
			await wait(act.gapMs);
			if (act.what === "command") before = run(act);
			else happen(act);
		}
		await Promise.all(runs.map(({ process }) => new Promise((resolve) => process.onEnd(resolve))));
		service.heal();
		for (const computer of computers) computer.aheadMs = 0;
		await wait(4e5);
		for (const [index] of keys.entries()) await run(lastWait(index));
		check(() => rules.onTheEnd(disk.files(), service.generations, schedule.now()));
		isDone = true;
	};
	const happen = (act) => {
		if (act.what === "credits") {
			service.addCredits(keys[0], act.more);
			tell(() => `the balance changes by ${act.more}`);
			return;
		}
		const computer = computers[act.computer];
		if (act.what === "clock") {
			computer.aheadMs = act.aheadMs;
			tell(() => `the clock of machine ${computer.name} ${clockWords(act.aheadMs)}`);
			return;
		}
		tell(() => `machine ${computer.name} loses power, and starts again`);
		for (const process of [...computer.processes]) process.end(true);
		computer.boot++;
		computer.nextPid = 100;
		disk.crash(createRandom(`${plan.seed}/crash`), computers.length > 1 ? computer.name : void 0);
	};
	let isDone = false;
	direct();
	await schedule.run(() => isDone || broken !== void 0 || schedule.now() > maxMs, maxSteps);
	if (!broken && !isDone) broken = {
		rule: 5,
		message: `${runs.filter(({ process }) => process.endedAt === void 0).map(({ process }) => process.name).join(", ")} never ends`
	};
	for (const { process } of runs) process.end(true);
	return {
		broken,
		lines,
		steps: schedule.taken()
	};
}
/** What a careful person does in the end. */
function lastWait(key) {
	const command = {
		type: "wait --all",
		place: `${work}/end/`,
		timeoutMs: 9e5
	};
	return {
		what: "command",
		name: `Z${key}`,
		command,
		computer: 0,
		namespace: "1",
		key,
		callMs: 1,
		starts: [],
		mishaps: [],
		gapMs: 0,
		waits: true
	};
}
function parse(text) {
	if (!text.startsWith("{")) return void 0;
	try {
		return JSON.parse(text);
	} catch {
		return;
	}
}
// test/simulation/simulate.ts
const { values } = parseArgs({ options: {
	seed: { type: "string" },
	minutes: {
		type: "string",
		default: "1"
	},
	stories: {
		type: "string",
		default: "Infinity"
	},
	/** Goes on after a rule was broken, and tells how often. */
	all: {
		type: "boolean",
		default: false
	},
	/** Only stories that break this rule, or whose message holds this text, count. */
	only: { type: "string" },
	json: {
		type: "boolean",
		default: false
	}
} });
const isWanted = (broken) => values.only === void 0 || `${broken.rule} ${broken.message}`.includes(values.only);
const print = (text) => void process$1.stdout.write(`${text}\n`);
async function show(seed) {
	const plan = planOf(seed);
	const { broken } = await play(plan);
	const least = broken ? await shrink(plan, async (each) => (await play(each)).broken?.rule === broken.rule) : plan;
	const { lines } = await play(least, { tells: true });
	print(`seed ${seed}${broken ? `: rule ${broken.rule} is broken; the shortest story that shows it:` : ""}\n`);
	print(lines.join("\n"));
	if (values.json) print(JSON.stringify(least));
	print(`\nnpm run simulate -- --seed ${seed}   plays it again`);
}
async function search(seed) {
	const end = performance.now() + Number(values.minutes) * 6e4;
	const start = process$1.cpuUsage();
	const found = /* @__PURE__ */ new Map();
	let stories = 0;
	let steps = 0;
	for (; stories < Number(values.stories) && performance.now() < end; stories++) {
		const name = `${seed}/${stories}`;
		const played = await play(planOf(name));
		steps += played.steps;
		if (played.broken === void 0 || !isWanted(played.broken)) continue;
		const kind = `${played.broken.rule} ${played.broken.message.replace(/[0-9a-f-]{36}/g, "...").replace(/\b[A-Z]\d?\b/g, "X")}`;
		found.set(kind, [...found.get(kind) ?? [], name]);
		if (!values.all) break;
	}
	const { user, system } = process$1.cpuUsage(start);
	const seconds = (user + system) / 1e6;
	print(`${stories} stories in ${seconds.toFixed(1)} s of one core: ${(stories / seconds).toFixed(0)} a second, ${(steps / seconds).toFixed(0)} steps a second`);
	for (const [kind, names] of [...found].sort(([, a], [, b]) => b.length - a.length)) print(`${names.length} x rule ${kind}: ${names.slice(0, 4).join(" ")}`);
	const first = [...found.values()][0]?.[0];
	if (first !== void 0 && !values.all) await show(first);
	return first === void 0;
}
if (values.seed?.includes("/")) await show(values.seed);
else {
	const seed = values.seed ?? randomBytes(4).toString("hex");
	print(`seed ${seed}`);
	process$1.exitCode = await search(seed) ? 0 : 1;
}
export {};
