// Makes one call of each kind with an unmodified library: node calls.mjs LIBRARY URL KEY

const [library, url, key] = process.argv.slice(2)
const user = `${library}-user`

async function rudderstack() {
  const { default: Analytics } = await import('@rudderstack/rudder-sdk-node')
  const client = new Analytics(key, { dataPlaneUrl: url, flushAt: 1, flushInterval: 100, logLevel: 'error' })
  const context = { campaign: { name: 'spring', source: 'mail' }, app: { name: 'Shop', version: '2' } }
  client.identify({ userId: user, anonymousId: `${library}-anon`, traits: { plan: 'pro' } })
  client.track({ userId: user, event: 'bought', properties: { n: 1 }, context })
  client.page({ userId: user, name: 'Home', category: 'Docs', properties: { url: 'https://shop.example/' } })
  client.group({ userId: user, groupId: 'acme', traits: { seats: 5 } })
  await client.flush()
}

async function cloudevents() {
  const { CloudEvent, emitterFor, Mode } = await import('cloudevents')
  for (const mode of [Mode.BINARY, Mode.STRUCTURED]) {
    const transport = (message) => fetch(`${url}/v1/cloudevents`, { method: 'POST', headers: { ...message.headers, 'X-Api-Key': key }, body: message.body })
      .then((r) => { if (r.status !== 202) throw new Error(`${mode} was answered ${r.status}`) })
    const emit = emitterFor(transport, { mode })
    const extensions = { source: `/${library}`, dataschema: 'https://shop.example/order', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', region: 'köln' }
    await emit(new CloudEvent({ ...extensions, type: `order.${mode}`, data: { total: 12.5 } }))
  }
}

await { rudderstack, cloudevents }[library]()
