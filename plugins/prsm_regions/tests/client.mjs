// An editor in plain Node: it leads one run to its end with a retry, and cancels another at its plan.
// Prints what it was told, and what the agents' feeds said, as one JSON value.
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { createInterface } from "node:readline";

const [command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const told = [];
const feeds = {};
const open = [];
let runs = 0;
let retries = 0;

const say = (message) => child.stdin.write(JSON.stringify(message) + "\n");
const run = () => {
  runs += 1;
  say({ type: "run", intent: "build it", effort: "low" });
};

function follow({ agent_id, tcp_port, token }) {
  const socket = connect(tcp_port, "127.0.0.1", () => socket.write(token + "\n"));
  feeds[agent_id] = [];
  open.push(
    new Promise((resolve) => {
      createInterface({ input: socket })
        .on("line", (line) => feeds[agent_id].push(JSON.parse(line)))
        .on("close", resolve);
    }),
  );
}

function failed(results) {
  const wrong = results.filter(({ status }) => status === "failed" || status === "partial");
  return wrong.map(({ subtask_index }) => subtask_index);
}

function hear(message) {
  told.push(message);
  if (message.type === "agent_tcp") follow(message);
  if (message.type === "plan") {
    if (runs === 1) say({ type: "approve", approved: true });
    else say({ type: "cancel" });
  }
  if (message.type === "result") {
    if (message.status === "done" && retries === 0) {
      retries += 1;
      say({ type: "retry", subtask_indices: failed(message.subtask_results) });
    } else if (runs === 1) run();
    else child.stdin.end();
  }
}

createInterface({ input: child.stdout }).on("line", (line) => hear(JSON.parse(line)));
child.on("close", async (code) => {
  await Promise.all(open);
  console.log(JSON.stringify({ code, retries, told, feeds }));
});
run();
