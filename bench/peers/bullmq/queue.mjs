// BullMQ as bench/queue measures it: node queue.mjs add|single|process|latency, with the
// flags of every contender. It prints "begin" and "end" around the measurement, and then its
// report. Jobs that are done are removed; everything else has its default.
import { Queue, Worker } from 'bullmq';
import { readFileSync, readSync, writeSync } from 'node:fs';

const [what, ...rest] = process.argv.slice(2);
const flag = (name, value) => { const i = rest.indexOf('-' + name); return i < 0 ? value : rest[i + 1]; };
const workers = +flag('workers', 100), rate = +flag('rate', 1000), seconds = +flag('seconds', 4);
const jobs = what === 'latency' ? Math.floor(rate * seconds) : +flag('jobs', 100_000);
const [host, port] = flag('redis', '').split(':');
const connection = { host, port: +port, maxRetriesPerRequest: null };
const events = readFileSync(flag('events', ''), 'utf8').split('\n', jobs).map(line => JSON.parse(line));
const queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true, removeOnFail: true } });
await queue.waitUntilReady();

// say reports the phase, and waits for the answer to go on.
const say = line => { writeSync(1, line + '\n'); if (line === 'begin' || line === 'end') readSync(0, Buffer.alloc(1)); };
const bulks = async () => {
  for (let i = 0; i < jobs; i += 1000) await queue.addBulk(events.slice(i, i + 1000).map(data => ({ name: 'event', data })));
};
const singles = async () => {
  let next = 0;
  await Promise.all(Array.from({ length: 50 }, async () => { while (next < jobs) await queue.add('event', events[next++]); }));
};

const times = new Uint8Array(jobs);
let once = 0, twice = 0, allDone;
const all = new Promise(resolve => { allDone = resolve; });
const seen = n => { if (times[n]++) twice++; else once++; };
const work = handle => {
  let completed = 0;
  const w = new Worker('bench', async job => { seen(job.data.n); handle(job.data.n); }, { connection, concurrency: workers });
  w.on('completed', () => { if (++completed === jobs) allDone(); });
  w.on('error', err => { console.error(err); process.exit(1); });
  return w;
};

const report = { done: jobs, twice: 0 };
let worker;
switch (what) {
  case 'add':
  case 'single':
    say('begin');
    await (what === 'add' ? bulks() : singles());
    say('end');
    break;
  case 'process':
    await bulks();
    say('begin');
    worker = work(() => {});
    await all;
    say('end');
    break;
  case 'latency': {
    const sent = new Float64Array(jobs), late = new Float64Array(jobs);
    worker = work(n => { late[n] = Math.round((performance.now() - sent[n]) * 1000); });
    await worker.waitUntilReady();
    say('begin');
    const start = performance.now(), adding = [];
    let next = 0;
    await new Promise(resolve => {
      const tick = () => {
        const due = Math.min(jobs, Math.floor((performance.now() - start) / 1000 * rate));
        for (; next < due; next++) { sent[next] = performance.now(); adding.push(queue.add('event', events[next])); }
        next < jobs ? setTimeout(tick, 1) : resolve();
      };
      tick();
    });
    await Promise.all(adding);
    await all;
    say('end');
    report.late_us = [...late.subarray(Math.floor(jobs / 10))]; // connections are made, code gets warm
    break;
  }
  default:
    throw new Error(`there is no part ${what}`);
}
if (worker) {
  await worker.close();
  Object.assign(report, { done: once, twice });
}
const counts = await queue.getJobCounts();
report.held = Object.values(counts).reduce((a, b) => a + b, 0);
say(JSON.stringify(report));
await queue.close();
