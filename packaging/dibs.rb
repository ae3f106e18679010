# Made by packaging/release.sh: the programs of one release, with their checksums.
class Dibs < Formula
  desc "Share one task queue in Notion without doing the same work twice"
  version "@VERSION@"
  license "Apache-2.0"

  # The URL of the folder that has the release's files.
  downloads = ENV.fetch("HOMEBREW_DIBS_DOWNLOADS", "@DOWNLOADS@")

  on_macos do
    on_arm do
      url "#{downloads}/dibs_v@VERSION@_darwin_arm64.tar.gz"
      sha256 "@darwin_arm64@"
    end
    on_intel do
      url "#{downloads}/dibs_v@VERSION@_darwin_amd64.tar.gz"
      sha256 "@darwin_amd64@"
    end
  end
  on_linux do
    on_arm do
      url "#{downloads}/dibs_v@VERSION@_linux_arm64.tar.gz"
      sha256 "@linux_arm64@"
    end
    on_intel do
      url "#{downloads}/dibs_v@VERSION@_linux_amd64.tar.gz"
      sha256 "@linux_amd64@"
    end
  end

  def install
    bin.install "dibs"
    man1.install Dir["man/*.1.gz"]
    bash_completion.install "completions/dibs.bash" => "dibs"
    zsh_completion.install "completions/dibs.zsh" => "_dibs"
    fish_completion.install "completions/dibs.fish"
    pkgshare.install "config.example.yaml"
  end

  service do
    run [opt_bin/"dibs", "serve"]
    keep_alive crashed: true
    log_path var/"log/dibs.log"
    error_log_path var/"log/dibs.log"
  end

  def caveats
    "To see it work: dibs try. To connect it with Notion: dibs init, then brew services start dibs."
  end

  test do
    assert_match "dibs v#{version}", shell_output("#{bin}/dibs version")
  end
end
