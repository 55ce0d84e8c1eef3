import { DAY_MS } from '../cluster/eks-versions';
import type { Certificate } from './account';
import { error, ok, warning, type Check, type Finding } from './check';

/** ACM renews its own certificates 60 days before they expire, and imported ones never. */
const WARN_DAYS = 30;

/**
 * The certificate of the Ingress. ACM renews what it issued and a service uses, and never what was imported:
 * https://docs.aws.amazon.com/acm/latest/userguide/managed-renewal.html (2026-11-27). That a load balancer needs a certificate
 * that is issued and in its region is from memory; no page was read for it.
 */
export const certificateCheck: Check = {
  name: 'certificate',
  run: async ({ account, settings: { region, triton }, today }) => {
    const { exposure } = triton;
    // A stack file has texts.
    if (exposure.kind !== 'ingress' || exposure.tls.kind !== 'acm' || typeof exposure.tls.certificateArn !== 'string')
      return [ok('the stack uses none of ACM')];
    const { certificateArn: arn } = exposure.tls;
    const [, certificateRegion, owner] = /^arn:[^:]+:acm:([^:]+):(\d+):certificate\//.exec(arn) ?? [];
    if (certificateRegion === undefined)
      return [
        error(`${arn} is not the ARN of a certificate`, 'correct ingress.certificateArn: aws acm list-certificates'),
      ];
    const { account: id } = await account.identity();
    if (certificateRegion !== region || owner !== id) {
      const found = `${arn} is in ${certificateRegion} of ${owner}, but the load balancer in ${region} of ${id}`;
      return [error(found, 'request or import a certificate there, and set ingress.certificateArn to it')];
    }
    const certificate = await account.certificate(arn);
    if (certificate === undefined)
      return [error(`${arn} does not exist`, 'correct ingress.certificateArn: aws acm list-certificates')];
    return judgeCertificate(arn, certificate, exposure.host, today);
  },
};

/** @param host of the Ingress */
export function judgeCertificate(arn: string, certificate: Certificate, host: string, today: Date): Finding[] {
  const findings = [...judgeStatus(arn, certificate, today), ...judgeNames(arn, certificate, host)];
  return findings.length > 0 ? findings : [ok(`${arn} is issued for ${host}, until ${formatDay(certificate.until)}`)];
}

function judgeStatus(arn: string, { status, until, isRenewed, renewal }: Certificate, today: Date): Finding[] {
  if (status === 'PENDING_VALIDATION') {
    const records = `aws acm describe-certificate --certificate-arn ${arn} --query Certificate.DomainValidationOptions`;
    return [error(`${arn} is not issued, because its domain is not validated`, `add the DNS records of: ${records}`)];
  }
  if (status !== 'ISSUED') return [error(`${arn} has the status ${status}`, 'request or import a new certificate')];
  const days = until === undefined ? Infinity : Math.floor((until.getTime() - today.getTime()) / DAY_MS);
  if (days >= WARN_DAYS) return [];
  const found = days < 0 ? `${arn} expired on ${formatDay(until)}` : `${arn} expires on ${formatDay(until)}`;
  const finding = days < 0 ? error : warning;
  if (!isRenewed) {
    return [
      finding(
        `${found}, and ACM does not renew it`,
        `aws acm import-certificate --certificate-arn ${arn} --certificate fileb://cert.pem --private-key fileb://key.pem --certificate-chain fileb://chain.pem`,
      ),
    ];
  }
  return [
    finding(
      `${found}, and its renewal is ${renewal ?? 'not under way'}`,
      'keep the DNS records that validate its domains',
    ),
  ];
}

function judgeNames(arn: string, { names }: Certificate, host: string): Finding[] {
  if (names.some((name) => covers(name.toLowerCase(), host.toLowerCase()))) return [];
  return [
    error(
      `${arn} is for ${names.join(', ')}, so clients refuse it for ${host}`,
      'set ingress.certificateArn to a certificate for ingress.host',
    ),
  ];
}

/** A wildcard stands for one label: RFC 6125, 6.4.3. */
const covers = (name: string, host: string): boolean =>
  name === host || (name.startsWith('*.') && host.includes('.') && host.slice(host.indexOf('.')) === name.slice(1));

const formatDay = (date: Date | undefined): string => date?.toISOString().slice(0, 10) ?? 'an unknown day';
