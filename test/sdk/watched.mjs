// An instance behind an address that has each page say what goes wrong in it: WebDriver tells nothing
// of what scripts throw, nor of what a page is refused by its own policy.
import { createServer, request } from 'node:http'

const watching = `window.wrong = []
addEventListener('error', (e) => wrong.push(e.message || 'an error without a message'))
addEventListener('unhandledrejection', (e) => wrong.push('not caught: ' + e.reason))
addEventListener('securitypolicyviolation', (e) => wrong.push('the policy ' + e.violatedDirective + ' refuses ' + e.blockedURI))
const said = console.error
console.error = (...all) => { wrong.push(all.join(' ')); said(...all) }`

// watched gives the address, and how many streams are open.
export async function watched(address) {
  const to = new URL(address)
  const streams = new Set()
  const server = createServer((asked, answer) => {
    if (asked.url === '/watching.js') {
      answer.setHeader('Content-Type', 'text/javascript')
      return answer.end(watching)
    }
    const up = request({ host: to.hostname, port: to.port, path: asked.url, method: asked.method, headers: { ...asked.headers, 'accept-encoding': 'identity' } }, (from) => {
      const html = /^text\/html/.test(from.headers['content-type'] || '')
      const { 'content-length': length, ...headers } = from.headers
      if (!html) {
        answer.writeHead(from.statusCode, from.headers)
        answer.flushHeaders()
        return from.pipe(answer)
      }
      let page = ''
      from.setEncoding('utf8').on('data', (text) => { page += text }).on('end', () => {
        answer.writeHead(from.statusCode, headers)
        answer.end(page.replace('<head>', '<head><script src="/watching.js"></script>'))
      })
    })
    up.on('error', () => answer.destroy())
    answer.on('close', () => {
      streams.delete(up)
      up.destroy()
    })
    if (asked.url.includes('/api/v1/stream')) streams.add(up)
    asked.pipe(up)
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return { address: `http://127.0.0.1:${server.address().port}`, streams: () => streams.size, end: () => server.closeAllConnections() || server.close() }
}
