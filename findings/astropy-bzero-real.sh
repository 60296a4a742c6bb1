#!/bin/sh
# astropy 8.0.2, with numpy 2.4.6: signed bytes whose BZERO is written as a real number.
#
# FITS (standard 4.0, 4.4.2.5) says that the value of BZERO is a floating-point number, and stores integers from -128 on as BITPIX = 8
# with BZERO = -128. astropy recognises this form and makes an int8 array, to which it then adds the value as it was written: with -128
# the integers come out, with -128.0 or -128. NumPy refuses the sum, and the image cannot be read.
# A good guess was: both spellings give the same integers, as 32768.0 and 32768 do for unsigned integers of 16 bits.
#
# Output seen:
#   8 bits, BZERO = -128: [-128 -1 0 127] int8
#   8 bits, BZERO = -128.0: UFuncTypeError
#   16 bits, BZERO = 32768: [32768 32768] uint16
#   16 bits, BZERO = 32768.0: [32768 32768] uint16
#
# Exits with 1 where the behaviour is another.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet numpy==2.4.6 astropy==8.0.2
cd "$place"
cat > images.py <<'END'
from astropy.io import fits


def card(text):
    return text.ljust(80).encode()


def image(bits, zero, data):
    cards = ["SIMPLE  =                    T", f"BITPIX  = {bits:>20}", "NAXIS   =                    1"]
    cards += [f"NAXIS1  = {8 * len(data) // bits:>20}", f"BZERO   = {zero:>20}", "END"]
    head = b"".join(map(card, cards))
    with open("image.fits", "wb") as file:
        file.write(head + b" " * (-len(head) % 2880) + data + b"\0" * (-len(data) % 2880))
    try:
        with fits.open("image.fits") as file:
            values = file[0].data
            return f"[{' '.join(map(str, values.tolist()))}] {values.dtype}"
    except TypeError as error:
        return type(error).__name__


for bits, zeros, data in ((8, ("-128", "-128.0"), b"\0\x7f\x80\xff"), (16, ("32768", "32768.0"), b"\0\0\0\0")):
    for zero in zeros:
        print(f"{bits} bits, BZERO = {zero}: {image(bits, zero, data)}")
END
venv/bin/python images.py | tee seen
cat > expected <<'END'
8 bits, BZERO = -128: [-128 -1 0 127] int8
8 bits, BZERO = -128.0: UFuncTypeError
16 bits, BZERO = 32768: [32768 32768] uint16
16 bits, BZERO = 32768.0: [32768 32768] uint16
END
cmp -s seen expected
