import { UserError } from '../core/errors';

/** One channel of sound. */
export interface Sound {
  /** Samples per second. */
  rate: number;
  /** From -1 to 1. */
  samples: Float32Array;
}

const FORMATS = { pcm: 1, float: 3, extensible: 0xfffe };

/**
 * Reads a WAV file of 16-bit or 32-bit floating point samples; several channels are averaged.
 * @throws UserError if the file has another format
 */
export function readWav(file: string, bytes: Buffer): Sound {
  const refuse = (what: string): UserError =>
    new UserError(`${file}: ${what}`, {
      hint: `convert it: ffmpeg -i ${file} -ar 16000 -ac 1 -c:a pcm_s16le NEW.wav`,
    });
  if (bytes.toString('latin1', 0, 4) !== 'RIFF' || bytes.toString('latin1', 8, 12) !== 'WAVE') {
    throw refuse('not a WAV file');
  }
  try {
    return readChunks(bytes, refuse);
  } catch (error) {
    // A read beyond the end of the file, or a length that is too large for it.
    throw (error as Error).name === 'RangeError' ? refuse('the file is damaged or truncated') : error;
  }
}

function readChunks(bytes: Buffer, refuse: (what: string) => UserError): Sound {
  let format: { code: number; channels: number; rate: number; bits: number } | undefined;
  for (let offset = 12; offset + 8 <= bytes.length;) {
    const id = bytes.toString('latin1', offset, offset + 4);
    const start = offset + 8;
    const size = bytes.readUInt32LE(offset + 4);
    if (id === 'fmt ') {
      const code = bytes.readUInt16LE(start);
      format = {
        code: code === FORMATS.extensible ? bytes.readUInt16LE(start + 24) : code,
        channels: bytes.readUInt16LE(start + 2),
        rate: bytes.readUInt32LE(start + 4),
        bits: bytes.readUInt16LE(start + 14),
      };
    } else if (id === 'data' && format !== undefined) {
      // A recorder that was interrupted leaves a size of 0 or of all ones.
      const data = bytes.subarray(start, Math.min(bytes.length, size === 0 ? bytes.length : start + size));
      const is16 = format.code === FORMATS.pcm && format.bits === 16;
      if (!is16 && !(format.code === FORMATS.float && format.bits === 32)) {
        throw refuse(
          `samples of ${format.bits} bits, format ${format.code}; allowed: 16-bit whole, 32-bit floating point`,
        );
      }
      const read = is16 ? (at: number) => data.readInt16LE(at) / 32_768 : (at: number) => data.readFloatLE(at);
      const samples = mix(data.length, format.bits / 8, format.channels, read);
      if (samples.length > 0) return { rate: format.rate, samples };
    }
    offset = start + size + (size % 2);
  }
  throw refuse('the file contains no sound');
}

function mix(bytes: number, width: number, channels: number, read: (at: number) => number): Float32Array {
  const samples = new Float32Array(Math.floor(bytes / (width * channels)));
  for (let i = 0; i < samples.length; i += 1) {
    let sum = 0;
    for (let c = 0; c < channels; c += 1) sum += read((i * channels + c) * width);
    samples[i] = sum / channels;
  }
  return samples;
}
