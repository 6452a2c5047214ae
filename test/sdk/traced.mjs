// Sends records of a batch, as part of a trace: node traced.mjs URL KEY BATCH TRACEPARENT BODY

const [url, key, batch, traceparent, body] = process.argv.slice(2)
const answer = await fetch(`${url}/v1/windows/events`, { method: 'POST', body, headers: { 'Content-Type': 'application/json', 'X-API-Key': key, 'X-Batch-ID': batch, traceparent } })
if (answer.status !== 202) throw new Error(`${answer.status} ${await answer.text()}`)
