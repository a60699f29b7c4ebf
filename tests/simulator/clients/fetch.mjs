// Posts a mail with node's fetch for each line [url, key, body] and prints [status, body] or [null, what went wrong].
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const [url, key, body] = JSON.parse(line);
  let outcome;
  try {
    const answer = await fetch(url, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", "idempotency-key": key },
      signal: AbortSignal.timeout(5000),
      redirect: "manual",
    });
    outcome = [answer.status, await answer.text()];
  } catch (problem) {
    outcome = [null, problem.cause?.code ?? problem.name];
  }
  process.stdout.write(JSON.stringify(outcome) + "\n");
}
