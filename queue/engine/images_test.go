package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairslice/images"
	"fairslice/queue"
)

func imageOf(name, sum string, labels map[string]string) images.Image {
	ref, err := images.ParseRef(name)
	if err != nil {
		panic(err)
	}
	return images.Image{Ref: ref, Digest: images.DigestOf([]byte(strings.Repeat(sum, 32))), Size: 1 << 20, Visibility: images.Private, Labels: labels}
}

// imageJob is a job in an image.
func imageJob(user, image string) queue.Submission {
	sub := submission([]string{user})
	sub.Spec.Image = image
	return sub
}

// A private image is for others as if it did not exist: they get the words for one that does not.
func TestAPrivateImageIsItsOwnersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		ctx := context.Background()
		if _, err := s.e.PutImage(ctx, identity("ada"), imageOf("ada/env:1", "a", nil), false); err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"eve", "ada"} {
			for _, name := range []string{"ada/env:1", "env:1", "env:2"} {
				_, err := s.e.Image(identity(who), name)
				_, submitErr := s.e.Submit(ctx, imageJob(who, name))
				own := who == "ada" && name != "env:2"
				if own != (err == nil) || own != (submitErr == nil) {
					t.Errorf("%s by %s: %v, %v", name, who, err, submitErr)
				}
				for _, err := range []error{err, submitErr} {
					if !own && err != nil && err.Error() != name+": No such image" {
						t.Errorf("%s by %s: %q", name, who, err)
					}
				}
			}
			if _, err := s.e.RemoveImage(ctx, identity("eve"), "ada/env:1"); err == nil || err.Error() != "ada/env:1: No such image" {
				t.Errorf("eve removes it: %v", err)
			}
			list, _ := s.e.Images(identity(who), false)
			if (len(list) > 0) != (who == "ada") {
				t.Errorf("%s sees %d images", who, len(list))
			}
		}
		if _, err := s.e.PutImage(ctx, identity("eve"), imageOf("ada/env:2", "b", nil), false); err == nil {
			t.Error("eve added an image of ada's")
		}
		if _, err := s.e.PutImage(ctx, identity("eve"), imageOf("env:2", "b", nil), false); err == nil {
			t.Error("eve added an image of the site's")
		}
		public := images.Public
		if _, err := s.e.ChangeImage(ctx, identity("ada"), "env:1", queue.ImageChange{Visibility: &public}); err == nil {
			t.Error("ada made hers public, where only administrators may")
		}
		if _, err := s.e.ChangeImage(ctx, identity("root"), "ada/env:1", queue.ImageChange{Visibility: &public}); err != nil {
			t.Error(err)
		}
		if _, err := s.e.Submit(ctx, imageJob("eve", "ada/env:1")); err != nil {
			t.Errorf("a public image: %v", err)
		}
		s.checkStored()
	})
}

// A job keeps the image that it was submitted with; the image is forgotten when no job needs it.
func TestAJobKeepsItsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		ctx := context.Background()
		put := func(sum string, replace bool) error {
			_, err := s.e.PutImage(ctx, identity("ada"), imageOf("ada/env:1", sum, nil), replace)
			return err
		}
		if err := put("a", false); err != nil {
			t.Fatal(err)
		}
		s.do(strings.Fields("join a=1"))
		acc, err := s.e.Submit(ctx, imageJob("ada", "env:1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := put("b", false); err == nil {
			t.Error("an image was replaced without a word")
		}
		if err := put("b", true); err != nil {
			t.Fatal(err)
		}
		if err := put("b", false); err == nil {
			t.Error("there are two of a name")
		}
		old := imageOf("ada/env:1", "a", nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if i := s.e.ImageByDigest(old.Digest); i == nil || i.Removed.IsZero() {
			t.Fatalf("the job's image is %+v", i)
		}
		s.e.View(func(v queue.View) {
			j := v.Book().Jobs[acc.Job]
			if i := v.Book().Images.Get(j.Spec.ImageID); i == nil || i.Digest != old.Digest || j.Spec.Image != "ada/env:1" {
				t.Errorf("the job has image %+v, named %s", i, j.Spec.Image)
			}
		})
		s.do(strings.Fields("kill root 1"))
		s.do(strings.Fields("report a 1#1 ended:9"))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if i := s.e.ImageByDigest(old.Digest); i != nil {
			t.Errorf("no job needs it, and there is %+v", i)
		}
		s.checkStored()
	})
}

func TestAJobBelowItsImagesMinimumIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		labels := map[string]string{"ai.backend.resource.min.cpu": "2", "ai.backend.resource.min.mem": "1g", "fairslice.min.fgpu": "0.5"}
		if _, err := s.e.PutImage(context.Background(), identity("root"), func() images.Image {
			i := imageOf("torch:2", "a", labels)
			i.Visibility = images.Public
			return i
		}(), false); err != nil {
			t.Fatal(err)
		}
		sub := imageJob("ada", "torch:2")
		sub.Spec.Memory = 512 << 20
		const want = "torch:2: The image needs more: cores (-n) is 1, and the least is 2; memory (-M) is 512 MiB, and the least is 1024 MiB; fGPU (-gpu fgpu=) is 0, and the least is 0.5"
		if _, err := s.e.Submit(context.Background(), sub); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if _, err := s.e.PutImage(context.Background(), identity("ada"), imageOf("ada/bad:1", "b", map[string]string{"fairslice.min.cpu": "two"}), false); err == nil {
			t.Error("an image with a label that is not understood was added")
		}
	})
}

// A quota is of what is listed; what takes the place of another counts in its place.
func TestAUsersImagesHaveAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		cfg := config()
		cfg.MaxUserImages, cfg.MaxUserImageBytes = 2, 3<<20
		s.e.Reconfigure(cfg)
		put := func(name, sum string, size int64, replace bool) error {
			i := imageOf("ada/"+name, sum, nil)
			i.Size = size
			_, err := s.e.PutImage(context.Background(), identity("ada"), i, replace)
			return err
		}
		if err := put("a:1", "a", 2<<20, false); err != nil {
			t.Fatal(err)
		}
		if err := put("b:1", "b", 2<<20, false); err == nil {
			t.Error("4 MiB are within 3")
		}
		if err := put("a:1", "c", 3<<20, true); err != nil {
			t.Error(err)
		}
		if err := put("a:1", "d", 1<<20, true); err != nil {
			t.Error(err)
		}
		if err := put("b:1", "e", 1<<20, false); err != nil {
			t.Error(err)
		}
		if err := put("c:1", "f", 1, false); err == nil {
			t.Error("three images are within two")
		}
	})
}
