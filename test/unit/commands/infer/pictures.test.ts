import type { BgrImage } from '../../../../src/model/media/image';
import {
  decodePicture,
  encodePictures,
  pictureLayout,
  PIXELS,
  type PixelKind,
} from '../../../../src/model/media/pictures';
import type { DataType, Tensor } from '../../../../src/triton/tensor';

/** Two pixels: blue, green, red each. */
const PICTURE: BgrImage = { width: 2, height: 1, data: Uint8Array.of(10, 20, 30, 255, 128, 0) };

it.each([
  ['UINT8', [-1, -1, 3], { channelsLast: true, height: -1, width: -1, batched: false }],
  ['FP32', [-1, 3, 224, 200], { channelsLast: false, height: 224, width: 200, batched: true }],
  ['FP16', [3, 8, 9], { channelsLast: false, height: 8, width: 9, batched: false }],
  ['UINT8', [-1, 8, 9, 3], { channelsLast: true, height: 8, width: 9, batched: true }],
  ['INT64', [-1, 8, 9, 3], undefined],
  ['FP32', [-1, 1, 28, 28], undefined],
  ['FP32', [3], undefined],
  ['FP32', [1, 1, 3, 2, 2], undefined],
])('pictureLayout returns the layout of %s %j', (datatype, shape, layout) => {
  expect(pictureLayout({ datatype, shape })).toEqual(layout);
});

const LAST = { channelsLast: true, height: -1, width: -1, batched: false };
const FIRST = { channelsLast: false, height: -1, width: -1, batched: true };

it.each<{ kind: PixelKind; datatype: DataType; layout: typeof LAST; values: number[] }>([
  { kind: 'bgr', datatype: 'UINT8', layout: LAST, values: [10, 20, 30, 255, 128, 0] },
  { kind: 'rgb', datatype: 'UINT8', layout: LAST, values: [30, 20, 10, 0, 128, 255] },
  { kind: 'rgb', datatype: 'FP32', layout: FIRST, values: [30, 0, 20, 128, 10, 255] },
  { kind: 'unit', datatype: 'FP32', layout: FIRST, values: [30 / 255, 0, 20 / 255, 128 / 255, 10 / 255, 1] },
  {
    kind: 'signed',
    datatype: 'FP32',
    layout: FIRST,
    values: [30 / 127.5 - 1, -1, 20 / 127.5 - 1, 128 / 127.5 - 1, 10 / 127.5 - 1, 1],
  },
  {
    kind: 'imagenet',
    datatype: 'FP32',
    layout: FIRST,
    values: [
      (30 / 255 - 0.485) / 0.229,
      -0.485 / 0.229,
      (20 / 255 - 0.456) / 0.224,
      (128 / 255 - 0.456) / 0.224,
      (10 / 255 - 0.406) / 0.225,
      (1 - 0.406) / 0.225,
    ],
  },
])('encodePictures encodes $kind as $datatype', ({ kind, datatype, layout, values }) => {
  const { data, shape } = encodePictures(datatype, layout, kind, [PICTURE]);
  expect(shape).toEqual(layout.batched ? [1, 3, 1, 2] : [1, 2, 3]);
  expect(data).toHaveLength(values.length);
  values.forEach((value, i) => expect(Number(data[i])).toBeCloseTo(value, 5));
});

it.each(Object.keys(PIXELS) as PixelKind[])('decodePicture restores a picture encoded as %s', (kind) => {
  for (const layout of [LAST, FIRST]) {
    const tensor = { name: 'x', datatype: 'FP32', ...encodePictures('FP32', layout, kind, [PICTURE]) } as Tensor;
    expect(decodePicture(tensor, kind)).toEqual(PICTURE);
  }
});

it('encodePictures concatenates the pictures of a batch', () => {
  const other = { ...PICTURE, data: Uint8Array.from(PICTURE.data).reverse() };
  const { data, shape } = encodePictures('UINT8', { ...LAST, batched: true }, 'bgr', [PICTURE, other]);
  expect(shape).toEqual([2, 1, 2, 3]);
  expect(data).toEqual(Uint8Array.of(...PICTURE.data, ...other.data));
});

it('decodePicture clamps values to a byte', () => {
  const tensor: Tensor = { name: 'x', datatype: 'FP32', shape: [3, 1, 1], data: Float32Array.of(-1.5, 0, 7) };
  expect(decodePicture(tensor, 'signed').data).toEqual(Uint8Array.of(255, 128, 0));
});

it('encodePictures rejects pictures of different sizes, decodePicture other tensors', () => {
  const other = { width: 1, height: 1, data: new Uint8Array(3) };
  expect(() => encodePictures('UINT8', { ...LAST, batched: true }, 'bgr', [PICTURE, other])).toThrow(
    'must have the same size',
  );
  const tensor: Tensor = { name: 'y', datatype: 'FP32', shape: [2, 4], data: new Float32Array(8) };
  expect(() => decodePicture(tensor, 'signed')).toThrow('output y, FP32 [2, 4], is not a picture');
});
