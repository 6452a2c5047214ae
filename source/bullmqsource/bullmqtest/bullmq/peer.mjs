// BullMQ as the tests talk to it: node peer.mjs PACKAGE HOST PORT PREFIX QUEUE. Every line of the
// input is a call {do, args}; every line of the output answers one: {is} or {error}. In a cluster
// HOST is "cluster" and PORT a port of any node.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { Redis, Cluster } from 'ioredis';

const [from, host, port, prefix, name] = process.argv.slice(2);
const { Queue, QueueEvents, Worker, FlowProducer, Job, UnrecoverableError } = await import(from);
const connect = () => host === 'cluster'
  ? new Cluster([{ host: '127.0.0.1', port: +port }], { redisOptions: { maxRetriesPerRequest: null } })
  : new Redis({ host, port: +port, maxRetriesPerRequest: null });
const redis = connect();
const options = () => ({ connection: connect(), prefix });
const queue = new Queue(name, options());
const others = {}; // queues of children
const seen = [];
let events, worker, flows;
const rest = ms => new Promise(done => setTimeout(done, ms));

const kinds = ['active', 'added', 'completed', 'delayed', 'drained', 'failed', 'paused', 'progress', 'resumed', 'retries-exhausted', 'stalled', 'waiting', 'waiting-children', 'deduplicated'];

// Jobs say what becomes of them: {ms, fail, never}. Each that was worked on is counted in a hash.
async function work(job) {
  await redis.hincrby(`{${name}}handled`, job.id, 1);
  if (job.data.ms) await rest(job.data.ms);
  if (job.data.never) throw new UnrecoverableError(job.data.never);
  if (job.data.fail) throw new Error(job.data.fail);
  return { by: 'bullmq' };
}

const show = async v => {
  if (Array.isArray(v)) return Promise.all(v.map(show));
  if (!(v instanceof Job)) return v;
  const { id, name, data, opts, attemptsMade, attemptsStarted, returnvalue, failedReason, stacktrace, progress, processedOn, finishedOn, processedBy, delay } = v;
  return { id, name, data, opts, attemptsMade, attemptsStarted, returnvalue, failedReason, stacktrace, progress, processedOn, finishedOn, processedBy, delay, state: await v.getState() };
};

// A strategy of a program's own: a custom pattern is due again in an hour.
const settings = { repeatStrategy: millis => millis + 3_600_000 };

const calls = {
  // When patterns are due next, by the library that this BullMQ reads them with; null: never.
  cron: (patterns, zones, starts) => {
    const of = createRequire(createRequire(import.meta.url).resolve(from));
    const { CronExpressionParser, parseExpression } = of('cron-parser');
    const next = (pattern, tz, start) => {
      const opts = { tz, currentDate: new Date(start) };
      try {
        return (CronExpressionParser ? CronExpressionParser.parse(pattern, opts) : parseExpression(pattern, opts)).next().getTime();
      } catch {
        return null;
      }
    };
    return patterns.map(p => zones.map(z => starts.map(s => next(p, z, s))));
  },
  // The dashboard bull-board as a browser talks to it: a route with its parameters.
  board: async (method, route, params) => {
    const of = createRequire(import.meta.url);
    const { createBullBoard } = of('@bull-board/api');
    const { BullMQAdapter } = of('@bull-board/api/bullMQAdapter');
    let queues, routes;
    const adapter = new Proxy({ setQueues: q => (queues = q, adapter), setApiRoutes: r => (routes = r, adapter) }, { get: (own, name) => own[name] ?? (() => adapter) });
    createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter });
    const { handler } = routes.find(r => r.method === method && [r.route].flat().includes(route));
    return handler({ queues, params: { queueName: name, ...params }, query: {}, body: {} });
  },
  // A schedule by a strategy that only the program knows.
  custom: async id => {
    const own = new Queue(name, { ...options(), settings });
    return own.upsertJobScheduler(id, { pattern: 'at full moon' }, { name: 'tick' });
  },
  queue: (method, ...args) => queue[method](...args),
  job: async (id, method, ...args) => {
    const job = await Job.fromId(queue, id);
    return job ? method ? job[method](...args) : job : null;
  },
  other: async (of, method, ...args) => {
    others[of] ??= new Queue(of, options());
    return others[of][method](...args);
  },
  flow: async tree => {
    flows ??= new FlowProducer(options());
    const { job } = await flows.add(tree);
    return job.id;
  },
  // Adds many jobs that are numbered.
  fill: async (count, data, opts) => {
    for (let i = 0; i < count; i += 1000) {
      await queue.addBulk(Array.from({ length: Math.min(1000, count - i) }, (_, n) => ({ name: 'event', data: { n: i + n, ...data }, opts })));
    }
  },
  listen: async () => {
    events = new QueueEvents(name, { ...options(), lastEventId: '0-0' }); // what was before it listens, too
    for (const kind of kinds) events.on(kind, args => seen.push({ event: kind, ...args }));
    await events.waitUntilReady();
  },
  seen: () => seen,
  finished: async (id, ms) => (await Job.fromId(queue, id)).waitUntilFinished(events, ms),
  worker: async ({ custom, ...opts }) => {
    worker = new Worker(name, work, { ...options(), ...(custom && { settings }), ...opts });
    worker.on('error', () => {});
    await worker.waitUntilReady();
  },
  // A worker that does nothing, as fast as it can, until so many are done.
  drain: async (count, concurrency) => {
    let n = 0;
    const cpu = process.cpuUsage(), start = process.hrtime.bigint();
    await new Promise(done => {
      worker = new Worker(name, async () => { if (++n === count) done(); }, { ...options(), concurrency });
    });
    const { user, system } = process.cpuUsage(cpu), ms = Number(process.hrtime.bigint() - start) / 1e6;
    await worker.close();
    return { ms, cpu: (user + system) / 1000 };
  },
  stop: () => worker.close(),
};

await queue.waitUntilReady();
process.stdout.write('{"is":"ready"}\n');
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { do: what, args } = JSON.parse(line);
    answer = { is: await show(await calls[what](...args)) ?? null };
  } catch (e) {
    answer = { error: String(e) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
process.exit(0);
