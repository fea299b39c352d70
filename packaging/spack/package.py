# Unchecked but for its syntax: no Spack was at hand. The sum stands in SHA256SUMS of the release.
from spack_repo.builtin.build_systems.go import GoPackage

from spack.package import *


class Ecrec(GoPackage):
    """Trainer of deep-learning recommendation models. Runs are exact: same config and data, same bits."""

    homepage = "https://github.com/ecrec/ecrec"
    url = "https://github.com/ecrec/ecrec/releases/download/v0.5.0/ecrec-0.5.0-source.tar.gz"

    license("Apache-2.0")

    # version("0.5.0", sha256="...")

    variant("mpi", default=False, description="Build the transport over MPI")

    depends_on("c", type="build")
    depends_on("go@1.25:", type="build")
    depends_on("pkgconfig", type="build", when="+mpi")
    depends_on("mpi", when="+mpi")

    # The archive holds all modules in vendor/, which Go takes by itself.
    build_directory = "cmd/ecrec"

    @property
    def build_args(self):
        args = super().build_args
        if self.spec.satisfies("+mpi ^mpich"):
            args.append("-tags=mpi,mpich")
        elif self.spec.satisfies("+mpi"):
            args.append("-tags=mpi")
        return args
