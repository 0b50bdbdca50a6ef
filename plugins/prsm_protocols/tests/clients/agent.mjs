// An agent in Node that speaks the wire protocol itself: by the socket, or by Redis.
// bootstrap: it reads its page and moves to inbox; inbox: it completes.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";

const { AGENT_ID: agent, PRSM_TOKEN: token, PRSM_SOCKET, PRSM_REDIS, PRSM_PROTOCOLS } = process.env;

const bulk = (...words) =>
  `*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join("");

function fromSocket(line) {
  return new Promise((resolve, reject) => {
    const socket = connect(PRSM_SOCKET).on("error", reject);
    createInterface({ input: socket }).once("line", (answer) => (socket.end(), resolve(answer)));
    socket.write(line + "\n");
  });
}

function fromRedis(line, id) {
  return new Promise((resolve, reject) => {
    const [, scheme, user, password, place] = /^(\w+):\/\/(.*):(.*)@([^?]*)/.exec(PRSM_REDIS);
    const [name, port] = place.split("/")[0].split(":");
    const way = scheme === "unix" ? [place] : [Number(port), name];
    const socket = connect(...way).on("error", reject);
    const keys = `prsm:{${agent}}`;
    createInterface({ input: socket, crlfDelay: Infinity }).on("line", (told) => {
      if (told.startsWith("-")) reject(new Error(told));
      if (told.startsWith("{")) (socket.end(), resolve(told)); // the answer is the only JSON
    });
    socket.write(bulk("AUTH", user, password));
    socket.write(bulk("XADD", `${keys}:requests`, "*", "r", line));
    socket.write(bulk("BLPOP", `${keys}:reply:${id}`, "30"));
  });
}

async function ask(what, args) {
  const id = randomUUID();
  const line = JSON.stringify({ agent, token, id, do: what, args });
  const answer = JSON.parse(await (PRSM_SOCKET ? fromSocket(line) : fromRedis(line, id)));
  if (!answer.ok) throw new Error(`${answer.error.message} (${answer.error.hint})`);
  return answer.result;
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line.includes("in state 'bootstrap'")) {
    const page = readFileSync(`${PRSM_PROTOCOLS}/bootstrap.md`, "utf8");
    if (!page.startsWith("# Protocol: bootstrap")) throw new Error("this is not the page");
    console.log(await ask("state", { to: "inbox", context: { bootstrap: "complete" } }));
  } else if (line.includes("in state 'inbox'")) {
    await ask("complete", { summary: "Node has read everything" });
    process.exit(0);
  }
}
