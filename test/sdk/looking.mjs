// The pages of the console, and what is looked for on each. A page is one of playwright-core or of
// puppeteer-core: of both only what they have in common is used.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const pages = ['', 'live', 'live?owner=nobody', 'queues', 'queues/s2s.demo', 'queues/s2s.demo/jobs', 'queues/s2s.demo/jobs?state=failed', 'queues/s2s.demo/pause', 'queues/s2s.demo/settings', 'partners', 'partners/demo', 'partners/demo/open', 'partners/demo/try', 'partners/demo/test', 'partners/demo/off', 'descriptions', 'descriptions?kind=partner', 'descriptions/partner/demo', 'descriptions/partner/demo/change', 'descriptions/add/partner', 'descriptions/add/site', 'descriptions/add/handler', 'windows', 'windows?state=parked', 'windows/files', 'windows/search?q=', 'bridge', 'dead', 'dead?pipeline=none', 'dead/delivery/1', 'dead/delivery/1/edit', 'dead?pipeline=s2s.demo&text=XXX', 'reference/listDead?try=true&system=delivery', 'reference/pauseQueue',
  'dead/replay?seq=1', 'dead/delete?all=true', 'operations', 'owners', 'owners/one?owner=shop', 'explain', 'audit?check=yes', 'access', 'access/users/add', 'access/tokens/make', 'books', 'instances', 'health', 'config', 'reference', 'analytics', 'analytics?name=none', 'analytics/person?distinct_id=ann', 'analytics/definitions', 'analytics/warnings', 'analytics/keys', 'analytics/keys/make?project=shop', 'crm', 'crm?type=none', 'crm/event?tenant=shop&id=first', 'crm/handlers', 'crm/replays', 'crm/replays/new', 'crm/replay?since=2020-01-01', 'crm/profile?tenant=shop&email=ann@example.com', 'me', 'views', 'views/save?address=%2Fconsole%2Fdead%3Fstate%3Dheld', 'menu', 'find?q=nowhere', 'nowhere']

// watch makes failures of what a page is refused by its own policy, of what its scripts throw, and of
// each request to another host than these.
export function watch(page, failures, hosts) {
  page.on('pageerror', (e) => failures.push(`${page.url()}: ${e}`))
  page.on('console', (m) => m.type() === 'error' && !/status of 4\d\d/.test(m.text()) && failures.push(`${page.url()}: ${m.text()}`))
  page.on('request', (r) => ['data:', ...hosts].some((host) => r.url().startsWith(host)) || failures.push(`${page.url()} asks for ${r.url()}`))
}

// look makes failures of a page that scrolls sideways and of what axe finds, which is a script.
export async function look(page, where, failures, script) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  if (wide > 0) failures.push(`${where}: it scrolls sideways by ${wide} px`)
  if (!script) return
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] }))
  for (const v of violations) failures.push(`${where}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 2).map((n) => n.html.slice(0, 120)).join(' | ')}`)
}
