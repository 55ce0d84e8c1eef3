import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** A private key and its self-signed certificate, in PEM. */
export interface Certificate {
  key: string;
  certificate: string;
}

/**
 * Creates a key and a self-signed certificate for 127.0.0.1 that does not expire. The certificate is for servers that
 * trust only this certificate and whose peers present it too, which only processes that can read the key can do.
 * Written in TypeScript because Node creates keys but no certificates, and not every machine has `openssl`.
 */
export function selfSignedCertificate(): Certificate {
  return createCertificate({ name: 'triton-serving local', addresses: [[127, 0, 0, 1]] });
}

export interface CertificateOptions {
  name: string;
  /** Host names that the certificate is for. */
  hosts?: readonly string[];
  /** Addresses that the certificate is for. */
  addresses?: readonly (readonly number[])[];
  /** Whether the certificate is that of an authority, which may sign others. */
  isAuthority?: boolean;
  /** The authority that signs the certificate; default: the certificate itself. */
  issuer?: { name: string; key: string };
}

/** Creates a key and a certificate. */
export function createCertificate(options: CertificateOptions): Certificate {
  const { name, hosts = [], addresses = [], isAuthority = false, issuer } = options;
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const names = [
    ...hosts.map((host) => der(OCTET_STRING_OF_HOST, Buffer.from(host))),
    ...addresses.map((address) => der(OCTET_STRING_OF_ADDRESS, Buffer.from(address))),
  ];
  const validity = sequence(time('19700101000000Z'), time(NEVER));
  // RFC 5280: TBSCertificate.
  const content = sequence(
    der(VERSION, der(INTEGER, Buffer.from([2]))),
    // Positive, because the first bit is 0.
    der(INTEGER, Buffer.from([1]), randomBytes(15)),
    sequence(ED25519),
    commonName(issuer?.name ?? name),
    validity,
    commonName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(
      EXTENSIONS,
      sequence(
        ...(names.length === 0 ? [] : [sequence(SUBJECT_ALTERNATIVE_NAME, der(OCTET_STRING, sequence(...names)))]),
        ...(isAuthority ? [sequence(BASIC_CONSTRAINTS, TRUE, der(OCTET_STRING, sequence(TRUE)))] : []),
      ),
    ),
  );
  const signature = sign(null, content, issuer?.key ?? privateKey);
  const signed = sequence(content, sequence(ED25519), der(BIT_STRING, Buffer.of(0), signature));
  const lines = signed.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}

/** RFC 5280 4.1.2.5: a certificate without an end. */
const NEVER = '99991231235959Z';

const commonName = (name: string): Buffer =>
  sequence(der(SET, sequence(COMMON_NAME, der(UTF8_STRING, Buffer.from(name)))));

/** Tags of ASN.1, and the tags that X.509 assigns to the parts of a certificate. */
const [INTEGER, BIT_STRING, OCTET_STRING, UTF8_STRING] = [0x02, 0x03, 0x04, 0x0c];
const [GENERALIZED_TIME, SEQUENCE, SET] = [0x18, 0x30, 0x31];
const [OCTET_STRING_OF_HOST, OCTET_STRING_OF_ADDRESS, VERSION, EXTENSIONS] = [0x82, 0x87, 0xa0, 0xa3];

const ED25519 = objectId('2b6570'); // 1.3.101.112
const COMMON_NAME = objectId('550403'); // 2.5.4.3
const SUBJECT_ALTERNATIVE_NAME = objectId('551d11'); // 2.5.29.17
const BASIC_CONSTRAINTS = objectId('551d13'); // 2.5.29.19
const TRUE = Buffer.from([0x01, 0x01, 0xff]);

function objectId(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

const sequence = (...parts: Buffer[]): Buffer => der(SEQUENCE, ...parts);
const time = (text: string): Buffer => der(GENERALIZED_TIME, Buffer.from(text));

/** One value in DER: tag, length, content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
