"""One closed loop in OOPAO, soapy, SPECULA and zellige, in turn: Strehl ratios, frames per second, positions of spots.

python bench/peers/ao_loop.py ZELLIGE SPOTS FOLDER   (scripts/ao-peers installs the peers and calls it)

ZELLIGE is the command, SPOTS what `cargo build -p zellige-tor --example spot_positions` makes. The system is
apps/tor/systems/scao.toml without noise: 8 m, 20 x 20 lenslets of 8 x 8 pupil pixels, spots by FFTs of 16 x 16 on as many
detector pixels, centre of gravity without threshold, an integrator of gain 0.4 whose slopes of one frame move the mirror of the
next one. Numbers are float64, except soapy's, which has no choice.

Each peer runs in a process of its own, which calibrates, waits, and simulates frames when it is asked to. Times are of its
frames alone; those of zellige have its Strehl ratios and images in them as well. Strehl ratios of peers are computed here, from
the residual wavefronts on their pupils: the mean over frames of |mean exp(2 pi i w / wavelength)|^2, as zellige does.

ROUNDS (3), FRAMES (300, of each round), SKIP (100 before the exposure) and THREADS (2) change the numbers. PEERS=soapy,...
chooses.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = os.path.join(HERE, "..", "..", "apps", "tor", "systems", "scao.toml")
PEERS = ["OOPAO", "soapy", "SPECULA"]
WAVELENGTHS = [1.65e-6, 2.2e-6]
DIAMETER, LENSLETS, PIXELS, DETECTOR, GAIN, CUTOFF, PUSH = 8.0, 20, 160, 16, 0.4, 0.02, 20.0
ARCSEC = 206264.806
WAVELENGTH = 700e-9
PIXEL = WAVELENGTH / (DIAMETER / LENSLETS) / 2 * ARCSEC
TILT = 0.1
THREADS = os.environ.get("THREADS", "2")


def tilted(np):
    """A tilt of TILT along the columns, in nm."""
    x = (np.arange(PIXELS) - (PIXELS - 1) / 2) * DIAMETER / PIXELS
    return np.tile(1e9 * TILT / ARCSEC * x, (PIXELS, 1))


def position(np, flat, moved):
    """How far the spots of fully lit lenslets move, by the centre of gravity, in pixels."""
    spots = [image.reshape(LENSLETS, DETECTOR, LENSLETS, DETECTOR).swapaxes(1, 2) for image in (flat, moved)]
    light = spots[0].sum(axis=(2, 3))
    full = light > 0.999 * light.max()
    at = np.arange(DETECTOR)

    def centre(image, axis):
        return ((image.sum(axis=5 - axis) @ at) / image.sum(axis=(2, 3)))[full].mean()

    return max(abs(centre(spots[1], axis) - centre(spots[0], axis)) for axis in (2, 3))


class Oopao:
    def __init__(self, np):
        from OOPAO.Atmosphere import Atmosphere
        from OOPAO.calibration.InteractionMatrix import InteractionMatrix
        from OOPAO.DeformableMirror import DeformableMirror
        from OOPAO.OPD_map import OPD_map
        from OOPAO.ShackHartmann import ShackHartmann
        from OOPAO.Source import Source
        from OOPAO.Telescope import Telescope

        tel = Telescope(resolution=PIXELS, diameter=DIAMETER, samplingTime=1 / 500, centralObstruction=0, fov=0,
                        display_optical_path=False)
        self.star = Source("I4", magnitude=0, coordinates=[0, 0])
        self.star * tel
        self.atm = Atmosphere(telescope=tel, r0=0.15, L0=25, fractionalR0=[1], windSpeed=[10], windDirection=[0],
                              altitude=[0])
        self.atm.initializeAtmosphere(tel)
        self.dm = DeformableMirror(telescope=tel, nSubap=LENSLETS, mechCoupling=0.35)
        self.star**tel
        # The default threshold makes a matrix from pushes of 20 nm useless.
        self.wfs = ShackHartmann(nSubap=LENSLETS, telescope=tel, lightRatio=0.5, threshold_cog=0, shannon_sampling=True,
                                 n_pixel_per_subaperture=DETECTOR)
        self.star**tel*self.wfs
        flat = np.array(self.wfs.cam.frame)
        self.star**tel*OPD_map(1e-9 * tilted(np))*self.wfs
        self.position = position(np, flat, np.array(self.wfs.cam.frame))
        found = InteractionMatrix(self.star, tel, self.dm, self.wfs, M2C=np.eye(self.dm.nValidAct), stroke=1e-9 * PUSH,
                                  single_pass=False, invert=False)
        self.r = np.linalg.pinv(found.D, CUTOFF)
        self.tel, self.pupil = tel, np.asarray(tel.pupil) > 0
        # Screens are those of the clock before.
        self.atm.generateNewPhaseScreen(1)
        self.dm.coefs = 0
        self.actuators = self.dm.nValidAct

    def step(self):
        self.atm.update()
        self.star**self.atm*self.tel*self.dm*self.wfs
        # The mirror's wavefront is added, so that commands are subtracted.
        self.dm.coefs = self.dm.coefs - GAIN * (self.r @ self.wfs.signal)

    def residual(self):
        return self.star.OPD[self.pupil]


SOAPY = """
simName:
pupilSize: {pixels}
nGS: 1
nDM: 1
nSci: 0
nIters: 10
loopTime: 0.002
threads: {threads}
verbosity: 0
Atmosphere:
  scrnNo: 1
  scrnHeights: [0]
  scrnStrengths: [1.]
  windDirs: [0]
  windSpeeds: [10.]
  wholeScrnSize: 1024
  subHarmonics: True
  r0: 0.15
  L0: [25.]
  randomSeed: 1
Telescope:
  telDiam: {diameter}
  obsDiam: 0.
  mask: circle
WFS:
  0:
    type: ShackHartmann
    GSPosition: [0, 0]
    GSHeight: 0
    wavelength: {wavelength}
    nxSubaps: {lenslets}
    pxlsPerSubap: {detector}
    subapFOV: {field}
    subapFieldStop: True
    fftOversamp: 1
    fftwThreads: {threads}
    subapThreshold: 0.5
    centThreshold: 0.
DM:
  0:
    type: Piezo
    closed: True
    nxActuators: {actuators}
    iMatValue: {push}
    gain: {gain}
Reconstructor:
  type: MVM
  svdConditioning: {cutoff}
"""


class Soapy:
    def __init__(self, np):
        import soapy

        text = SOAPY.format(pixels=PIXELS, threads=THREADS, diameter=DIAMETER, wavelength=f"{WAVELENGTH:.1e}",
                            lenslets=LENSLETS, detector=DETECTOR, field=DETECTOR * PIXEL, actuators=LENSLETS + 1, push=PUSH,
                            gain=GAIN, cutoff=CUTOFF)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scao.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.sim = sim = soapy.Sim(path)
        sim.aoinit()
        sim.makeIMat(forceNew=True)
        self.wfs, self.pad = sim.wfss[0], sim.config.sim.simPad
        inside = slice(self.pad, -self.pad)
        self.inside, self.pupil = (inside, inside), sim.mask[inside, inside] > 0
        # What it calls a correction is subtracted.
        screens = np.zeros((1, sim.config.sim.scrnSize, sim.config.sim.scrnSize))
        self.wfs.frame(None, phase_correction=screens, iMatFrame=True)
        flat = self.wfs.detector.astype(float)
        edge = (screens.shape[1] - PIXELS) // 2
        screens[0, edge:edge + PIXELS, edge:edge + PIXELS] = tilted(np)
        self.wfs.frame(None, phase_correction=screens, iMatFrame=True)
        self.position = position(np, flat, self.wfs.detector.astype(float))
        self.actuators = sim.dms[0].n_valid_actuators
        self.frames = 0

    def step(self):
        """As Sim.loopFrame, without cameras and output."""
        sim = self.sim
        sim.scrns = sim.atmos.moveScrns()
        sim.dmCommands[:] = sim.recon.reconstruct(sim.slopes)
        sim.closed_correction = sim.runDM(sim.dmCommands, closed=True)
        sim.slopes = sim.runWfs(dmShape=sim.closed_correction, loopIter=self.frames)
        self.frames += 1

    def residual(self):
        return 1e-9 * self.wfs.los.residual[self.inside][self.pupil]


class Specula:
    def __init__(self, np):
        import specula

        specula.init(-1, precision=0, log_level=50)
        from specula.base_value import BaseValue
        from specula.data_objects.electric_field import ElectricField
        from specula.data_objects.ifunc import IFunc
        from specula.data_objects.pupilstop import Pupilstop
        from specula.data_objects.simul_params import SimulParams
        from specula.data_objects.source import Source
        from specula.processing_objects.atmo_evolution import AtmoEvolution
        from specula.processing_objects.atmo_propagation import AtmoPropagation
        from specula.processing_objects.ccd import CCD
        from specula.processing_objects.dm import DM
        from specula.processing_objects.sh import SH
        from specula.processing_objects.sh_slopec import ShSlopec
        from specula.processing_objects.sh_subap_calibrator import ShSubapCalibrator

        params = SimulParams(pixel_pupil=PIXELS, pixel_pitch=DIAMETER / PIXELS, time_step=0.002, total_time=100)
        stop = Pupilstop(params)
        source = Source(polar_coordinates=[0, 0], magnitude=0, wavelengthInNm=1e9 * WAVELENGTH)
        self.time, self.ticks = 0, 2_000_000

        def trigger(unit):
            unit.check_ready(self.time)
            unit.trigger()
            unit.post_trigger()

        self.trigger = trigger

        def sensor(field):
            # As many pupil pixels and as large an FFT as the others have: its default doubles both.
            lenslets = SH(wavelengthInNm=1e9 * WAVELENGTH, subap_wanted_fov=DETECTOR * PIXEL, sensor_pxscale=PIXEL,
                          subap_on_diameter=LENSLETS, subap_npx=DETECTOR, fov_ovs_coeff=1.0)
            lenslets.inputs["in_ef"].set(field)
            camera = CCD(params, size=[LENSLETS * DETECTOR] * 2, dt=0.002, bandw=100)
            camera.inputs["in_i"].set(lenslets.outputs["out_i"])
            return [lenslets, camera]

        def with_slopes(units, cells):
            slopes = ShSlopec(cells, thr_value=-1)
            slopes.inputs["in_pixels"].set(units[1].outputs["out_pixels"])
            return [*units, slopes]

        # Calibration, with a field of its own.
        field = ElectricField(PIXELS, PIXELS, DIAMETER / PIXELS, S0=source.phot_density())
        field.A[:] = stop.A
        units = sensor(field)
        field.generation_time = self.time
        for unit in units:
            unit.setup()
            trigger(unit)
        flat = np.array(units[0].outputs["out_i"].i)
        with tempfile.TemporaryDirectory() as folder:
            cells = ShSubapCalibrator(LENSLETS, folder, 0.5, "cells")
            cells.inputs["in_i"].set(units[0].outputs["out_i"])
            cells.setup()
            trigger(cells)
            cells = cells.subaps
        units = with_slopes(units, cells)
        units[2].setup()

        def measure(phase):
            self.time += self.ticks
            field.phaseInNm[:] = phase
            field.generation_time = self.time
            for unit in units:
                trigger(unit)
            return np.array(units[2].outputs["out_slopes"].slopes)

        measure(tilted(np))
        self.position = position(np, flat, np.array(units[0].outputs["out_i"].i))
        self.flat = measure(0)
        functions = IFunc(type_str="zonal", npixels=PIXELS, n_act=LENSLETS + 1, circ_geom=False, obsratio=0.0, diaratio=1.0,
                          mask=stop.A)
        self.actuators = functions.nmodes()
        matrix = np.empty((len(self.flat), self.actuators))
        shape = np.zeros((PIXELS, PIXELS))
        for i, function in enumerate(functions.influence_function):
            shape[functions.idx_inf_func] = PUSH * function
            matrix[:, i] = (measure(shape) - measure(-shape)) / (2 * PUSH)
        self.r = np.linalg.pinv(matrix, CUTOFF)

        # The loop.
        self.commands = BaseValue(value=np.zeros(self.actuators))
        seeing = BaseValue(value=np.array([0.9759 * 0.5 / (4.848 * 0.15)]))
        speed, direction = BaseValue(value=np.array([10.0])), BaseValue(value=np.array([0.0]))
        self.given = [seeing, speed, direction, self.commands]
        screens = tempfile.mkdtemp()
        atm = AtmoEvolution(params, L0=25, heights=[0], Cn2=[1.0], data_dir=screens, pixel_phasescreens=2048, seed=1)
        for name, value in [("seeing", seeing), ("wind_speed", speed), ("wind_direction", direction)]:
            atm.inputs[name].set(value)
        dm = DM(params, height=0, ifunc=functions)
        dm.inputs["in_command"].set(self.commands)
        path = AtmoPropagation(params, {"star": source})
        path.inputs["atmo_layer_list"].set(atm.outputs["layer_list"])
        path.inputs["common_layer_list"].set([stop, dm.outputs["out_layer"]])
        self.field = path.outputs["out_star_ef"]
        self.units = [atm, dm, path, *with_slopes(sensor(self.field), cells)]
        atm.last_t = self.time
        for value in self.given:
            value.generation_time = self.time
        for unit in self.units:
            unit.setup()
        self.slopes = self.units[-1].outputs["out_slopes"]
        self.pupil = np.asarray(stop.A) > 0

    def step(self):
        self.time += self.ticks
        for value in self.given:
            value.generation_time = self.time
        for unit in self.units:
            self.trigger(unit)
        # Commands are subtracted from the wavefront by the mirror's sign.
        self.commands.value += GAIN * (self.r @ (self.slopes.slopes - self.flat))

    def residual(self):
        return 1e-9 * self.field.phaseInNm[self.pupil]


def peer(name):
    """Prepares a peer, then simulates as many frames as each line of the input says."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What the packages print.
    import numpy as np

    began = time.perf_counter()
    loop = {"OOPAO": Oopao, "soapy": Soapy, "SPECULA": Specula}[name](np)
    say = lambda **what: print(json.dumps(what), file=out, flush=True)
    say(setup=time.perf_counter() - began, position=float(loop.position), actuators=int(loop.actuators),
        pupil=int(loop.pupil.sum()))
    for line in sys.stdin:
        frames, exposed = map(int, line.split())
        seconds, strehl, square = 0.0, [0.0] * len(WAVELENGTHS), 0.0
        for _ in range(frames):
            began = time.perf_counter()
            loop.step()
            seconds += time.perf_counter() - began
            if exposed:
                w = loop.residual()
                square += float(w.var())
                strehl = [sum_ + abs(np.exp(2j * np.pi / band * w).mean())**2 for sum_, band in zip(strehl, WAVELENGTHS)]
        say(seconds=seconds, strehl=[float(each) for each in strehl], square=square)


class Process:
    """A peer in a process of its own."""

    def __init__(self, name, folder):
        self.log = open(os.path.join(folder, f"{name}.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, __file__, "peer", name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended: see {self.log.name}")
        return json.loads(line)

    def run(self, frames, exposed):
        self.process.stdin.write(f"{frames} {int(exposed)}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def zellige(command, seed, frames, skip, folder):
    """A loop of the same system: frames per second, Strehl ratios, nm rms."""
    path = os.path.join(folder, "zellige.json")
    subprocess.run([command, "tor", "loop", SYSTEM, "--no-noise", "--workers", THREADS, "--frames", str(frames), "--skip",
                    str(skip), "--seed", str(seed), "--json", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        found = json.load(file)["results"][0]
    target = found["targets"][0]
    return {"rate": found["frames_per_second"], "strehl": [band["strehl"] for band in target["bands"]],
            "nm": target["rms_nm"], "actuators": found["actuators"], "setup": 0.0}


def main():
    command, spots, folder = sys.argv[1:]
    rounds, frames, skip = (int(os.environ.get(key, value)) for key, value in
                            [("ROUNDS", 3), ("FRAMES", 300), ("SKIP", 100)])
    for variable in ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR"):
        os.environ[f"{variable}_NUM_THREADS"] = THREADS
    os.environ.update(OOPAO_BACKEND="cpu", OOPAO_PRECISION="64", SPECULA_DISABLE_GPU="TRUE", MPLBACKEND="Agg")
    peers, facts, results = {}, {}, {}
    for name in os.environ.get("PEERS", ",".join(PEERS)).split(","):
        process = Process(name, folder)
        try:
            facts[name] = process.answer()
            process.run(skip, False)
            peers[name] = process
        except RuntimeError as error:
            print(f"left out: {name} ({error})", flush=True)
    moved = json.loads(subprocess.run([spots, SYSTEM, str(TILT)], check=True, stdout=subprocess.PIPE).stdout)
    facts["zellige"] = {"position": moved["pixels"]}
    zellige(command, 1, 20, 0, folder)
    for turn in range(rounds):
        load = os.getloadavg()[0]
        results.setdefault("zellige", []).append(zellige(command, turn + 1, frames, skip, folder))
        for name, process in peers.items():
            found = process.run(frames, True)
            results.setdefault(name, []).append({
                "rate": frames / found["seconds"], "strehl": [each / frames for each in found["strehl"]],
                "nm": 1e9 * (found["square"] / frames) ** 0.5})
        print(f"round {turn + 1}: load {load:.1f}, " + ", ".join(f"{name} {each[-1]['rate']:.1f} frames/s"
                                                              for name, each in results.items()), flush=True)
    for process in peers.values():
        process.end()
    facts["zellige"]["actuators"] = results["zellige"][0]["actuators"]
    mean = lambda each, key: statistics.mean(one[key] for one in each)
    band = lambda each, i: statistics.mean(one["strehl"][i] for one in each)
    ours, lost = results["zellige"], []
    print(f"{THREADS} threads, {rounds} rounds of {frames} frames after {skip}; a tilt of {TILT} arcsec is {TILT / PIXEL:.4f} pixels")
    print("| | actuators | Strehl 1.65 um | 2.2 um | from zellige | nm rms | frames/s, median | zellige over it | spots move by |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, each in results.items():
        rate = statistics.median(one["rate"] for one in each)
        ratio = statistics.median(one["rate"] / other["rate"] for one, other in zip(ours, each))
        apart, moved = band(each, 1) - band(ours, 1), facts[name]["position"]
        print(f"| {name} | {facts[name]['actuators']} | {band(each, 0):.4f} | {band(each, 1):.4f} | {apart:+.4f} | "
              f"{mean(each, 'nm'):.1f} | {rate:.1f} | {ratio:.1f} | {moved:.4f} |")
        if name != "zellige":
            lost += [f"{name}: Strehl ratios at 2.2 um differ by {apart:+.4f}"] if abs(apart) > 0.02 else []
            lost += [f"{name}: {ratio:.1f} times its frames per second"] if ratio < 5 else []
            far = moved - facts["zellige"]["position"]
            lost += [f"{name}: its spots move {far:+.4f} pixels farther"] if abs(far) > 0.01 else []
    with open(os.path.join(folder, "loops.json"), "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "results": results}, file, indent=1)
    if lost:
        sys.exit("; ".join(lost))


if __name__ == "__main__":
    peer(sys.argv[2]) if sys.argv[1] == "peer" else main()
